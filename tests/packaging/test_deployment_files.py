"""The files that people deploy with name only commands, settings and paths that there are."""

from __future__ import annotations

import hashlib
import shlex
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from support.kafka_jars import KAFKA_VERSION
from tiergate_server.addresses import Address
from tiergate_server.cli import app
from tiergate_server.cli.session import Session
from tiergate_server.config import Config, load_config

_ROOT = Path(__file__).parents[2]
_PLANES = ("metadata", "segments")


def read(name: str) -> str:
    return (_ROOT / name).read_text(encoding="utf-8")


def compose_service(plane: str) -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(read("docker-compose.yml"))["services"][plane]
    return service


def dockerfile_instructions(keyword: str) -> list[str]:
    """The arguments of each such instruction, with continued lines joined."""
    lines = read("Dockerfile").replace("\\\n", " ").splitlines()
    return [line.removeprefix(keyword + " ") for line in lines if line.startswith(keyword + " ")]


def effective(plane: str) -> Config:
    image = dict(pair.split("=", 1) for line in dockerfile_instructions("ENV") for pair in line.split())
    return load_config(environment={**image, **compose_service(plane)["environment"]})


def parse(words: list[str]) -> str:
    """The full name of the command that these words run; raises click's UsageError for words that run none."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("tiergate", list(words), obj=Session())
    name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    found.make_context(name, rest, parent=context)
    return str(name)


def test_compose_has_both_planes_of_one_image() -> None:
    services = yaml.safe_load(read("docker-compose.yml"))["services"]
    assert set(services) == {*_PLANES, "kafka"}
    assert {services[plane]["image"] for plane in _PLANES} == {"tiergate"}


def test_compose_keeps_the_metadata_in_the_broker_that_it_starts() -> None:
    services = yaml.safe_load(read("docker-compose.yml"))["services"]
    broker = services["kafka"]["environment"]
    config = effective("metadata")
    assert broker["KAFKA_ADVERTISED_LISTENERS"] == config.metadata.log.replace("kafka://", "PLAINTEXT://")
    assert services["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert "kafka" in services["metadata"]["depends_on"]
    assert config.metadata.kafka.replication == 1, "there is one broker"


@pytest.mark.parametrize("plane", _PLANES)
def test_compose_commands_are_commands_of_the_command_line(plane: str) -> None:
    service = compose_service(plane)
    assert service["command"][1] == plane
    assert parse(service["command"]) == "serve"
    kind, program, *words = service["healthcheck"]["test"]
    assert (kind, program, words[1]) == ("CMD", "tiergate", plane)
    assert parse(words) == "health"


def test_words_that_are_no_command_do_not_parse() -> None:
    with pytest.raises(Exception, match="No such command"):
        parse(["sevre", "metadata"])
    with pytest.raises(Exception, match="is not one of"):
        parse(["serve", "metdata"])


@pytest.mark.parametrize("plane", _PLANES)
def test_compose_publishes_what_the_planes_listen_on_to_loopback_only(plane: str) -> None:
    config = effective(plane)
    section = config.metadata if plane == "metadata" else config.segments
    listening = {Address.parse(section.listen), Address.parse(section.metrics)}
    assert all(address.is_every_interface for address in listening)
    published = [mapping.rsplit(":", 2) for mapping in compose_service(plane)["ports"]]
    assert {int(inside) for _, _, inside in published} == {address.port for address in listening}
    assert {host for host, _, _ in published} == {"127.0.0.1"}
    assert f"127.0.0.1:{Address.parse(section.advertise).port}" in {f"{host}:{port}" for host, port, _ in published}


@pytest.mark.parametrize("plane", _PLANES)
def test_compose_keeps_the_data_directory_in_a_named_volume_and_waits_for_the_drain(plane: str) -> None:
    service = compose_service(plane)
    config = effective(plane)
    volumes = yaml.safe_load(read("docker-compose.yml"))["volumes"]
    ((name, target),) = [volume.split(":") for volume in service["volumes"]]
    assert name in volumes
    assert Path(target) == config.data_directory
    assert float(service["stop_grace_period"].removesuffix("s")) > config.drain_seconds


def test_dockerfile_copies_paths_that_exist_and_are_not_ignored() -> None:
    allowed = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    sources = [words[0] for words in map(shlex.split, dockerfile_instructions("COPY"))]
    assert {"constraints.txt", "protos", "client/python", "server"} == set(sources)
    for source in sources:
        assert (_ROOT / source).exists()
        assert any(source == entry or fnmatch(source, f"{entry}/*") for entry in allowed)


def test_dockerfile_builds_every_distribution_and_runs_as_nobody_special() -> None:
    (build,) = [line for line in dockerfile_instructions("RUN") if "pip wheel" in line]
    for source in ("protos", "client/python", "server"):
        assert f"./{source}" in build
        assert (_ROOT / source / "pyproject.toml").exists()
    assert dockerfile_instructions("USER") == ["tiergate"]


def test_dockerfile_exposes_the_default_ports_and_starts_the_command() -> None:
    config = Config()
    addresses = (config.metadata.listen, config.segments.listen, config.metadata.metrics, config.segments.metrics)
    (exposed,) = dockerfile_instructions("EXPOSE")
    assert exposed.split() == [str(Address.parse(address).port) for address in addresses]
    assert yaml.safe_load(dockerfile_instructions("ENTRYPOINT")[0]) == ["tiergate"]
    assert parse(yaml.safe_load(dockerfile_instructions("CMD")[0])) == "serve"


def test_pre_commit_uses_only_tools_of_the_environment() -> None:
    (repository,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    requirements = read("requirements-dev.txt").split()
    packages = {"ruff": "ruff", "mypy": "mypy", "buf": "buf-bin"}
    for hook in repository["hooks"]:
        program = hook["entry"].split()[0]
        assert hook["language"] == "system"
        if program == "protos/lint.sh":
            assert packages["buf"] in requirements
            continue
        assert program.startswith(".venv/bin/")
        assert packages[Path(program).name] in requirements


def test_license_is_the_unchanged_apache_text() -> None:
    digest = hashlib.sha256((_ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_segment_plane_of_compose_asks_the_metadata_plane_by_its_service() -> None:
    config = effective("segments")
    port = Address.parse(effective("metadata").metadata.listen).port
    assert config.segments.metadata_target == f"metadata:{port}", "what clients are told leads nowhere in a container"
