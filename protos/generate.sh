#!/usr/bin/env bash
# Generates the Python stubs from tiergate/v1/*.proto into DIR (default: beside the .proto files, where they are
# committed). Runs in an environment of its own with the oldest supported toolchain, because newer stubs refuse older
# runtimes. That environment is built once, under the cache directory.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-.}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tiergate
pins=$(cat toolchain.txt)
venv=$cache/proto-toolchain-$(printf '%s' "$pins" | cksum | cut -d' ' -f1)
if [ ! -f "$venv/.ready" ]; then
    echo "installing the protobuf toolchain into $venv" >&2
    "${PYTHON:-python3}" -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $pins
    touch "$venv/.ready"
fi
mkdir -p "$out"
imports=$("$venv/bin/python" -c 'import google.rpc; print(list(google.rpc.__path__)[0].removesuffix("/google/rpc"))')
PATH=$venv/bin:$PATH "$venv/bin/python" -m grpc_tools.protoc --proto_path=. --proto_path="$imports" \
    --python_out="$out" --grpc_python_out="$out" --mypy_out="quiet:$out" --mypy_grpc_out="quiet:$out" \
    tiergate/v1/*.proto
