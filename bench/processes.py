"""Servers under measurement, each in a process of its own: starting one, and what it used. It knows no benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STOP_S = 20


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    address: str
    pid: int

    def cpu_seconds(self) -> float:
        """Processor time of all its threads since it started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def peak_resident_bytes(self) -> int:
        return _memory(self.pid, "VmHWM")

    def resident_bytes(self) -> int:
        return _memory(self.pid, "VmRSS")


def resident_bytes() -> int:
    """Of this process, now."""
    return _memory(os.getpid(), "VmRSS")


def _memory(pid: int, which: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} does not tell its {which}")


@contextmanager
def plane(name: str, directory: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A plane of the real service on a free port, with its defaults where `settings` say nothing."""
    chosen = {f"{name}.listen": "127.0.0.1:0", f"{name}.metrics": "", **(settings or {})}
    flags = [f"--set={key}={value}" for key, value in chosen.items()]
    command = [sys.executable, "-m", "tiergate_server", "serve", name, f"--data-dir={directory}", *flags]
    with started(command, directory / f"{name}.log", os.environ) as server:
        yield server


@contextmanager
def peer(script: str, *arguments: str, log: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """A peer of this directory, started like a plane."""
    with started([sys.executable, str(Path(__file__).with_name(script)), *arguments], log, environment) as server:
        yield server


@contextmanager
def started(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """Runs a server that takes `--ready-fd N` and writes {"address": …} there; ends it by SIGTERM."""
    ready_reader, ready_writer = os.pipe()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--ready-fd={ready_writer}"],
            pass_fds=[ready_writer],
            stdout=output,
            stderr=output,
            env=dict(environment),
        )
    os.close(ready_writer)
    try:
        with os.fdopen(ready_reader) as ready:
            line = ready.readline()
        if not line:
            raise RuntimeError(f"{command} did not start:\n{log.read_text()[-3000:]}")
        yield Server(json.loads(line)["address"], process.pid)
    finally:
        process.terminate()
        process.wait(_STOP_S)
