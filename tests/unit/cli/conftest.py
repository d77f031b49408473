"""The command line on the real domain in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.in_process_tiergate import InProcessTiergate, in_process_tiergate
from tiergate_server.cli.application import run
from tiergate_server.kafka_files.sample import SamplePartition, write_sample


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended and what it said."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        return json.loads(self.stderr)["error"]


Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIERGATE_TARGET", "TIERGATE_SEGMENTS_TARGET", "TIERGATE_TRACEBACK", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tiergate(tmp_path: Path) -> Iterator[InProcessTiergate]:
    with in_process_tiergate(tmp_path / "objects") as running:
        yield running


@pytest.fixture
def cli(tiergate: InProcessTiergate, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    def run_here(*arguments: str) -> Result:
        capfdbinary.readouterr()
        exit_code = run(arguments, connector=lambda _: nullcontext(tiergate))
        out, err = capfdbinary.readouterr()
        return Result(exit_code, out, err.decode())

    return run_here


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SamplePartition:
    """Three rolled segments of 32 KiB. Only to be read."""
    return write_sample(tmp_path_factory.mktemp("sample"), segments=3, segment_bytes=32 * 1024)


@pytest.fixture
def stored(cli: Cli, sample: SamplePartition) -> list[str]:
    """The ids of the sample's segments, all copied."""
    return [segment["segment_id"] for segment in cli("put", str(sample.directory), "-o", "json").document["copied"]]
