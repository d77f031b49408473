"""Processor time of this process and everything that it started, directly or not; it knows no benchmark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds() -> float:
    """Of the living and, through those that waited for them, of the dead."""
    parents = dict(_parents())
    return sum(ticks for pid, (_, ticks) in parents.items() if _descends(pid, parents)) / _TICKS_PER_SECOND


def _parents() -> Iterator[tuple[int, tuple[int, int]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            yield int(entry.name), (int(fields[1]), sum(map(int, fields[11:15])))


def _descends(pid: int, parents: dict[int, tuple[int, int]]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid][0]
    return False
