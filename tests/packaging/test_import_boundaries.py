"""Dependencies point inward: rpc -> domain -> seam <- adapter, and the client stands alone."""

from __future__ import annotations

import inspect
import sys
import typing
from pathlib import Path

import pytest

import tiergate_client
from support.imports import Imports, importers, is_within, offences, read_imports

_ROOT = Path(__file__).parents[2]
_CLIENT_SOURCES = _ROOT / "client" / "python" / "src"
_SERVER_SOURCES = _ROOT / "server" / "src"
_SPARK_SOURCES = _ROOT / "spark_connector" / "src"

_DOMAIN = ("tiergate_server.metadata", "tiergate_server.segments")
_SHELL = tuple(
    f"tiergate_server.{name}" for name in ("rpc", "adapters", "cli", "app", "config", "supervisor", "metrics")
)
_SDKS = ("grpc", "grpc_health", "grpc_reflection", "google", "boto3", "botocore", "confluent_kafka", "sqlite3")
_TOOLKITS = ("typer", "rich", "prometheus_client", "uvloop")
_CLIENT_MAY_IMPORT = {"awscrt", "grpc", "google", "crc32c", "tiergate", "tiergate_client"} | sys.stdlib_module_names
_RECORDS = "tiergate_client.records"
_RECORDS_MAY_IMPORT = {"llvmlite", "numba", "numpy", "pyarrow"}
_CLIENT_VALUES = tuple(
    f"tiergate_client.{name}"
    for name in (
        "errors",
        "values",
        "ids",
        "integers",
        "epochs",
        "interfaces",
        "segment_files",
        "segment_data",
        "verification",
    )
)


@pytest.fixture(scope="module")
def client() -> Imports:
    return read_imports(_CLIENT_SOURCES)


@pytest.fixture(scope="module")
def server() -> Imports:
    return read_imports(_SERVER_SOURCES)


@pytest.fixture(scope="module")
def spark() -> Imports:
    return read_imports(_SPARK_SOURCES)


@pytest.fixture(scope="module")
def both(client: Imports, server: Imports) -> Imports:
    return {**client, **server}


def test_domain_reaches_no_sdk_and_no_outer_layer(both: Imports) -> None:
    assert offences(both, within=_DOMAIN, forbidden=(*_SDKS, *_TOOLKITS, *_SHELL)) == set()


def test_sqlite_is_imported_by_exactly_one_module(server: Imports) -> None:
    assert importers(server, ["sqlite3"]) == {"tiergate_server.adapters.embedded_log"}


@pytest.mark.parametrize("sdk", [("boto3", "botocore"), ("confluent_kafka",)], ids=lambda names: names[0])
def test_sdk_is_imported_by_one_module_at_most_and_that_is_an_adapter(server: Imports, sdk: tuple[str, ...]) -> None:
    modules = importers(server, sdk)
    assert len(modules) <= 1
    assert all(is_within(module, ["tiergate_server.adapters"]) for module in modules)


def test_adapters_reach_no_outer_layer(both: Imports) -> None:
    outer = [package for package in _SHELL if package != "tiergate_server.adapters"]
    assert offences(both, within=["tiergate_server.adapters"], forbidden=["grpc", *outer]) == set()


@pytest.mark.parametrize(
    ("layer", "wiring"),
    [
        (
            "tiergate_server.adapters",
            {"tiergate_server.app", "tiergate_server.event_logs", "tiergate_server.object_stores"},
        ),
        ("tiergate_server.rpc", {"tiergate_server.app"}),
    ],
)
def test_layer_is_imported_by_itself_and_by_the_wiring_only(server: Imports, layer: str, wiring: set[str]) -> None:
    outside = {module for module in importers(server, [layer]) if not is_within(module, [layer])}
    assert outside == wiring


def test_client_imports_its_declared_dependencies_only(client: Imports) -> None:
    foreign = {
        (module, name)
        for module, names in client.items()
        for name in names
        if name.partition(".")[0] not in _CLIENT_MAY_IMPORT
        and not (is_within(module, [_RECORDS]) and name.partition(".")[0] in _RECORDS_MAY_IMPORT)
    }
    assert foreign == set()


def test_client_is_imported_without_what_only_records_need(client: Imports) -> None:
    reached = offences(client, within=["tiergate_client"], forbidden=[_RECORDS, *_RECORDS_MAY_IMPORT])
    needing = {module for module, _ in reached if not is_within(module, [_RECORDS])}
    assert needing == {"tiergate_client.record_conversions"}


def test_records_reach_neither_grpc_nor_stubs(client: Imports) -> None:
    assert offences(client, within=[_RECORDS], forbidden=["grpc", "google", "tiergate"]) == set()


def test_numba_is_imported_by_the_compiled_loops_and_where_its_cache_is_set_alone(client: Imports) -> None:
    modules = {"_kernels", "_framing_kernels", "scratch_cache"}
    assert importers(client, ["numba"]) == {f"{_RECORDS}.{module}" for module in modules}


def test_spark_source_stands_on_the_client_and_never_on_the_server_or_an_sdk(spark: Imports) -> None:
    assert importers(spark, ["tiergate_server", *_SDKS]) == set()


def test_source_and_its_executors_are_imported_without_what_only_pipelines_need(spark: Imports) -> None:
    within = ["tiergate_spark.source", "tiergate_spark.worker", "pyspark_tiergate"]
    assert offences(spark, within=within, forbidden=["tiergate_spark.pipelines", "pandas", *_TOOLKITS]) == set()


def test_values_of_the_client_reach_neither_grpc_nor_stubs(client: Imports) -> None:
    assert set(_CLIENT_VALUES) <= client.keys()
    assert offences(client, within=_CLIENT_VALUES, forbidden=["grpc", "google", "tiergate"]) == set()


def test_every_public_import_of_the_client_is_in_its_all() -> None:
    exported = tiergate_client.__all__
    public = {
        name
        for name, value in vars(tiergate_client).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(exported)
    assert len(exported) == len(set(exported))


def test_every_type_in_the_clients_signatures_can_be_imported_from_its_front_door() -> None:
    doors = (
        tiergate_client.connect,
        *_methods(tiergate_client.Tiergate),
        *_methods(tiergate_client.RemoteLogMetadata),
        *_methods(tiergate_client.RemoteStorage),
        *_methods(tiergate_client.GrpcRecords),
        *_methods(tiergate_client.Admin),
    )
    named = {kind for door in doors for hint in typing.get_type_hints(door).values() for kind in _classes(hint)}
    ours = {kind.__name__ for kind in named if kind.__module__.startswith("tiergate_client")}
    assert "RemoteLogSegmentMetadata" in ours
    assert ours <= set(tiergate_client.__all__)


def _methods(kind: type) -> list[typing.Any]:
    return [member for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")]


def _classes(hint: object) -> set[type]:
    parts = typing.get_args(hint)
    if parts:
        return {kind for part in parts for kind in _classes(part)}
    return {hint} if isinstance(hint, type) else set()


@pytest.fixture
def made_up(tmp_path: Path) -> Imports:
    """A tree with one offence of each kind."""
    sources = {
        "shop/__init__.py": "",
        "shop/domain/__init__.py": "from .prices import price\n",
        "shop/domain/prices.py": "def price():\n    import sqlite3\n    return sqlite3\n",
        "shop/domain/orders.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.web import page\n",
        "shop/domain/lazy.py": "import importlib\nstore = importlib.import_module('boto3.session')\n",
        "shop/domain/clean.py": "import json\nimport sqlite3_like\n",
        "shop/web/__init__.py": "",
        "shop/web/page.py": "from .. import domain\nfrom ..domain import orders\n",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return read_imports(tmp_path)


def test_checker_finds_offences_that_are_direct_hidden_lazy_and_at_second_hand(made_up: Imports) -> None:
    found = offences(made_up, within=["shop.domain"], forbidden=["sqlite3", "boto3", "shop.web"])
    assert {module for module, _ in found} == {
        "shop.domain",  # at second hand, by prices
        "shop.domain.prices",
        "shop.domain.orders",
        "shop.domain.lazy",
    }


def test_checker_resolves_relative_imports(made_up: Imports) -> None:
    assert importers(made_up, ["shop.domain.orders"]) == {"shop.web.page"}
    assert importers(made_up, ["shop.domain.prices"]) == {"shop.domain"}
    assert importers(made_up, ["sqlite3"]) == {"shop.domain.prices"}
