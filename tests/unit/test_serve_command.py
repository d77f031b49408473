"""`tiergate serve` and `tiergate config`: how flags become a configuration and a process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tiergate_server.cli.config import config as config_command
from tiergate_server.cli.serve import serve as serve_command
from tiergate_server.cli.session import Session
from tiergate_server.config import Config, ConfigError
from tiergate_server.supervisor.free_ports import choose_free_ports

_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    "MALLOC_TOP_PAD_": "67108864",
}

app = typer.Typer()
app.command("serve")(serve_command)
app.command("config")(config_command)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*_MALLOC, *(name for name in os.environ if name.startswith("TIERGATE_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tiergate_server.cli.serve.configure_logging", lambda **_: None)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Config]]:
    """The planes that were run in this process, each of which was ready and ended with 0."""
    seen: list[tuple[str, Config]] = []

    def run_plane(plane: str, config: Config, *, on_ready: Any, lifeline_fd: int | None, worker: None) -> int:
        seen.append((plane, config))
        on_ready({"plane": plane, "address": config.metadata.listen, "metrics": ""})
        return 0

    monkeypatch.setitem(sys.modules, "tiergate_server.app", SimpleNamespace(run_plane=run_plane))
    return seen


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, words, obj=Session())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_one_plane_runs_here_and_tells_its_supervisor(runs: list[tuple[str, Config]]) -> None:
    reader, writer = os.pipe()
    words = (
        "serve",
        "metadata",
        "--data-dir",
        "/data",
        "--set",
        "metadata.listen=127.0.0.1:1",
        "--ready-fd",
        str(writer),
    )
    assert invoke(*words) == (0, "")
    with os.fdopen(reader, encoding="utf-8") as pipe:
        assert json.loads(pipe.read()) == {"plane": "metadata", "address": "127.0.0.1:1", "metrics": ""}
    ((plane, config),) = runs
    assert (plane, config.data_directory, config.metadata.listen) == ("metadata", Path("/data"), "127.0.0.1:1")


def test_supervisor_that_is_gone_does_not_disturb_a_ready_plane(runs: list[tuple[str, Config]]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert invoke("serve", "metadata", "--ready-fd", str(writer)) == (0, "")
    assert len(runs) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_segments_alone_starts_itself_once_more_with_allocator_settings(
    monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, Config]], tmp_path: Path
) -> None:
    file = tmp_path / "t.toml"
    file.touch()
    executed: list[tuple[str, list[str], dict[str, str]]] = []

    def execve(*call: Any) -> None:
        executed.append(call)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    reader, writer = os.pipe()
    given = (
        "--config",
        str(file),
        "--set",
        "segments.limits.uploads=3",
        "--data-dir",
        "/data",
        "--ready-fd",
        str(writer),
    )
    invoke("serve", "segments", *given)
    ((program, words, environ),) = executed
    assert program == sys.executable
    assert _MALLOC.items() <= environ.items()
    assert not runs
    for name in _MALLOC:
        monkeypatch.setenv(name, environ[name])
    invoke(*words[words.index("serve") :])
    assert len(executed) == 1
    with os.fdopen(reader, encoding="utf-8") as pipe:
        assert json.loads(pipe.read())["plane"] == "segments"
    ((_, config),) = runs
    assert (config.segments.limits.uploads, config.data_directory) == (3, Path("/data"))


def test_configuration_that_a_plane_refuses_is_one_sentence_and_exit_code_78(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_plane(*_: Any, **__: Any) -> int:
        raise ConfigError("metadata.listen is taken.")

    monkeypatch.setitem(sys.modules, "tiergate_server.app", SimpleNamespace(run_plane=run_plane))
    assert invoke("serve", "metadata") == (78, "tiergate: metadata.listen is taken.\n")


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("metadata.lissen=1", "metadata.lissen (from the flag) is not a setting; did you mean metadata.listen?"),
        ("metadata.listen", "--set metadata.listen has no value: write it as --set metadata.listen=VALUE."),
        ("metadata.listen=127.0.0.1:7401", "metadata.listen and segments.listen are both 127.0.0.1:7401"),
    ],
)
def test_serve_refuses_flags_that_cannot_work(assignment: str, sentence: str) -> None:
    exit_code, output = invoke("serve", "--set", assignment)
    assert exit_code == 78
    assert sentence in output


@pytest.mark.parametrize(("advertise", "warnings"), [("", 1), ("host:7400", 0)])
def test_serve_warns_when_clients_elsewhere_cannot_find_a_plane(
    runs: list[tuple[str, Config]], caplog: pytest.LogCaptureFixture, advertise: str, warnings: int
) -> None:
    invoke("serve", "metadata", "--set", "metadata.listen=0.0.0.0:7400", "--set", f"metadata.advertise={advertise}")
    assert len(runs) == 1
    assert caplog.text.count("cannot find 0.0.0.0:7400") == warnings


def test_config_shows_values_and_where_they_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("drain_seconds = 7\n", encoding="utf-8")
    monkeypatch.setenv("TIERGATE_CONFIG", str(file))
    monkeypatch.setenv("TIERGATE_LOG_LEVEL", "debug")
    exit_code, output = invoke("config", "--set", "segments.limits.uploads=3", "--data-dir", "/data", "-o", "json")
    rows = {row["key"]: (row["value"], row["source"]) for row in json.loads(output)["settings"]}
    assert exit_code == 0
    assert rows["drain_seconds"] == (7.0, f"file {file}")
    assert rows["log_level"] == ("debug", "environment variable TIERGATE_LOG_LEVEL")
    assert rows["segments.limits.uploads"] == (3, "flag")
    assert rows["metadata.log"] == ("embedded:/data/metadata.db", "default")
    assert rows["segments.advertise"] == ("127.0.0.1:7401", "default")


def test_config_table_names_every_setting() -> None:
    exit_code, output = invoke("config")
    assert exit_code == 0
    assert "metadata.limits.custom_metadata_bytes" in output


def test_free_ports_are_chosen_only_where_they_are_open() -> None:
    addresses = {"a": "127.0.0.1:0", "b": "127.0.0.1:7400", "c": "", "d": "127.0.0.1:0", "e": "[::1]:0"}
    chosen = choose_free_ports(addresses)
    assert set(chosen) == {"a", "d", "e"}
    assert chosen["a"] != chosen["d"]
    assert chosen["e"].startswith("[::1]:")
    assert all(not address.endswith(":0") for address in chosen.values())
