"""Processes below another one, as Linux tells of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ChildProcess:
    pid: int
    parent: int
    command: str


def descendants(pid: int) -> list[ChildProcess]:
    """Children, their children and so on, nearest first."""
    everyone = list(_everyone())
    found: list[ChildProcess] = []
    parents = {pid}
    while parents:
        children = [one for one in everyone if one.parent in parents]
        found += children
        parents = {one.pid for one in children}
    return found


def _everyone() -> list[ChildProcess]:
    processes = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may just have ended
            status = (directory / "stat").read_text()
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = int(status.rpartition(")")[2].split()[1])
            processes.append(ChildProcess(int(directory.name), parent, command))
    return processes
