# What a person types. `make` lists it; ARGS are handed on: make run ARGS="--data-dir /tmp/tiergate".

PYTHON ?= python3
ARGS ?=
# Processes that share the tests. What one of them starts (a broker, a store), it starts for itself.
JOBS ?= 2

# Each of the many processes that are started would otherwise compile all that it imports, every time.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SOURCES := client/python/src server/src spark_connector/src tests scripts $(if $(wildcard bench/*.py),bench)
RUN_READY := .venv/.run-ready
TEST_READY := .venv/.test-ready

.DEFAULT_GOAL := help
.PHONY: help run test check format proto docs nightly bench wheels clean require-python

help: ## list what there is
	@awk -F ': .*## ' '/^[a-z]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_READY) ## set up and start the service on this machine; Ctrl-C stops it
	@echo "To use it from another terminal: cd '$(CURDIR)' && . $(BIN)/activate && tiergate status"
	@exec $(BIN)/tiergate serve $(ARGS)

test: $(TEST_READY) ## set up and run every test but the nightly ones
	@$(BIN)/pytest -q -m "not nightly" --numprocesses=$(JOBS) --dist=loadgroup --no-loadscope-reorder $(ARGS)

check: $(TEST_READY) ## format, lint, types, proto lint and drift
	@$(BIN)/ruff format --quiet --check . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy $(SOURCES)
	@protos/lint.sh
	@$(BIN)/pytest -q tests/packaging/test_proto_drift.py

format: $(TEST_READY) ## format the code and apply the linter's safe fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

proto: ## generate the Python stubs from the .proto files
	@PYTHON="$(PYTHON)" protos/generate.sh

docs: $(RUN_READY) ## write the parts of the docs that come from the code
	@$(BIN)/python -m tiergate_server.config > docs/configuration.md.new
	@mv docs/configuration.md.new docs/configuration.md

nightly: $(TEST_READY) ## every test, with the long settings
	@KILLS=1000 REPLICA_KILLS=100 $(BIN)/pytest -q --timeout=3600 --hypothesis-profile=nightly \
		--numprocesses=$(JOBS) --dist=loadgroup --no-loadscope-reorder $(ARGS)

bench: $(TEST_READY) ## every benchmark, one after another
	@for file in bench/bench_*.py; do echo "== $$file"; $(BIN)/python "$$file" $(ARGS) || exit 1; done

wheels: $(TEST_READY) ## build the distributions into dist/
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir dist ./protos ./client/python ./server ./spark_connector
	@ls dist

clean: ## remove .venv and everything that was built (downloads stay cached outside the clone)
	@rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find protos client server spark_connector tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +

PACKAGE_FILES := constraints.txt scripts/set_up.py protos/pyproject.toml client/python/pyproject.toml server/pyproject.toml

$(RUN_READY): $(PACKAGE_FILES) | require-python
	@$(PYTHON) scripts/set_up.py run

$(TEST_READY): $(PACKAGE_FILES) requirements-dev.txt spark_connector/pyproject.toml | require-python
	@$(PYTHON) scripts/set_up.py test

require-python:
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "$(PYTHON) is not on PATH: install Python 3.11 or later, or name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11: name a later one: make PYTHON=python3.12 …" >&2; exit 1; }
