"""Each distribution, installed from its wheel into an environment of its own, works and brings nothing else along."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.service import started_service
from support.wheels import DISTRIBUTIONS, ROOT, CleanVenv, build_wheels, declared_dependencies, wheelhouse

pytestmark = pytest.mark.timeout(600)  # the first run downloads the wheels of others

_TINY_PROGRAM = """
from tiergate_client import SegmentId, connect
with connect("127.0.0.1:1") as tiergate:
    print(SegmentId.from_text("AAAAAAAAAAAAAAAAAAAAAQ").raw.hex())
"""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    build_wheels(directory)
    return directory


@pytest.fixture(scope="module")
def others() -> Path:
    needed = {
        requirement
        for distribution in DISTRIBUTIONS
        for requirement in declared_dependencies(distribution, with_extras=True)
        if not requirement.startswith("tiergate-")
    }
    return wheelhouse(needed, constraints=ROOT / "constraints.txt")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, ours: Path, others: Path) -> CleanVenv:
    venv = CleanVenv(tmp_path_factory.mktemp("client"))
    venv.install("tiergate-client", find_links=[ours, others])
    return venv


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, ours: Path, others: Path) -> CleanVenv:
    venv = CleanVenv(tmp_path_factory.mktemp("server"))
    venv.install("tiergate-server", find_links=[ours, others])
    return venv


def test_wheels_are_those_of_the_four_distributions(ours: Path) -> None:
    names = {wheel.name.split("-")[0] for wheel in ours.glob("*.whl")}
    assert names == {"tiergate_proto", "tiergate_client", "tiergate_server", "tiergate_spark"}


def test_client_brings_its_declared_dependencies_only(client: CleanVenv) -> None:
    declared = {re.split(r"[<>=]", requirement)[0] for requirement in declared_dependencies("client/python")}
    assert declared == {"tiergate-proto", "grpcio", "protobuf", "googleapis-common-protos", "crc32c"}
    assert client.installed() == {"tiergate-client", *declared, "typing-extensions"}  # the last one is grpcio's


def test_client_is_importable_without_anything_of_the_server(client: CleanVenv) -> None:
    assert client.python(_TINY_PROGRAM) == "00000000000000000000000000000001\n"
    unwanted = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert client.python(unwanted, "boto3", "confluent_kafka", "tiergate_server", "typer", "tiergate_client") == (
        "['tiergate_client']\n"
    )


def test_client_ships_its_types(client: CleanVenv) -> None:
    program = (
        "from importlib.resources import files\n"
        "import tiergate, tiergate_client\n"
        "for package in tiergate, tiergate_client: print(files(package).joinpath('py.typed').is_file())"
    )
    assert client.python(program) == "True\nTrue\n"


def test_proto_brings_grpc_and_protobuf_and_the_status_of_an_item_only(
    tmp_path: Path, ours: Path, others: Path
) -> None:
    venv = CleanVenv(tmp_path)
    venv.install("tiergate-proto", find_links=[ours, others])
    assert venv.installed() == {
        "tiergate-proto",
        "googleapis-common-protos",
        "grpcio",
        "protobuf",
        "typing-extensions",
    }
    program = "from tiergate.v1 import metadata_pb2_grpc, types_pb2; print(types_pb2.DESCRIPTOR.package)"
    assert venv.python(program) == "tiergate.v1\n"


def test_spark_source_brings_what_reads_records_and_no_spark(tmp_path: Path, ours: Path, others: Path) -> None:
    venv = CleanVenv(tmp_path)
    venv.install("tiergate-spark", find_links=[ours, others])
    installed = venv.installed()
    assert {"tiergate-client", "tiergate-proto", "numba", "numpy", "pyarrow"} <= installed
    assert {"pyspark", "py4j", "pandas", "tiergate-server"}.isdisjoint(installed)
    found = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert venv.python(found, "tiergate_spark", "pyspark_tiergate", "tiergate_server") == (
        "['tiergate_spark', 'pyspark_tiergate']\n"
    )


def test_command_says_its_version_and_lists_its_commands(server: CleanVenv) -> None:
    assert server.run("tiergate", "--version") == "tiergate 0.1.0\n"
    commands = server.run("tiergate", "--help").partition("Commands:")[2]
    for command in ("serve", "put", "ls", "show", "get", "rm", "status", "sample"):
        assert re.search(rf"^\s+{command}\s", commands, re.MULTILINE), command


def test_server_serves_a_round_trip(server: CleanVenv, tmp_path: Path) -> None:
    command = [str(server.bin / "tiergate"), "serve"]
    with started_service(command, data_directory=tmp_path / "data", cwd=tmp_path) as target:

        def tiergate(*words: str) -> str:
            return server.run("tiergate", "--target", target, *words)

        tiergate("sample", str(tmp_path / "sample"))
        tiergate("put", str(tmp_path / "sample" / "orders-0"))
        listed = json.loads(tiergate("ls", "orders", "-o", "json"))["segments"]
        assert len(listed) == 4
        got = tmp_path / "got.log"
        tiergate("get", listed[0]["segment_id"], "-o", str(got))
        assert got.read_bytes() == (tmp_path / "sample" / "orders-0" / f"{0:020}.log").read_bytes()
