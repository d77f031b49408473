"""Which offsets of a partition an export holds, and where it has gaps.

How they are remembered is told in `export_layout.py`; what of a gap is in the tier is found in `export_plan.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Run: TypeAlias = tuple[int, int]
"""[start, stop) of offsets."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Both ascend, and neighbours are one run."""

    runs: tuple[Run, ...]
    """What is committed."""
    skipped: tuple[Run, ...]
    """What a run with --skip-missing found missing, of committed data also behind what it exported; a segment may have
    come since."""

    @classmethod
    def of(cls, runs: Iterable[Run], *, skipped: Iterable[Run] = ()) -> Coverage:
        committed = joined(runs)
        return cls(committed, joined(left for run in skipped for left in without(run, committed)))

    @property
    def stop_offset(self) -> int:
        """Behind the last offset; 0 when nothing is committed."""
        return self.runs[-1][1] if self.runs else 0

    def overlaps(self, run: Run) -> bool:
        return any(_overlap(run, one) is not None for one in self.runs)

    def run_up_to(self, offset: int) -> Run:
        """The run that ends there; empty when none does."""
        return next((run for run in self.runs if run[1] == offset), (offset, offset))

    def with_run(self, run: Run) -> Coverage:
        return Coverage.of((*self.runs, run), skipped=self.skipped)

    def with_skipped(self, skipped: Iterable[Run]) -> Coverage:
        return Coverage.of(self.runs, skipped=(*self.skipped, *skipped))


def joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The same offsets in as few runs as can be, ascending."""
    found: list[Run] = []
    for start, stop in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return tuple(found)


def without(run: Run, removed: Sequence[Run]) -> list[Run]:
    """What is left of a run, ascending; what is removed must ascend too."""
    start, stop = run
    left = []
    for gone_start, gone_stop in removed:
        if start < min(gone_start, stop):
            left.append((start, min(gone_start, stop)))
        start = max(start, gone_stop)
    if start < stop:
        left.append((start, stop))
    return left


def common(runs: Iterable[Run], others: Sequence[Run]) -> list[Run]:
    """What is in both, ascending where they are."""
    return [both for run in runs for other in others if (both := _overlap(run, other)) is not None]


def _overlap(one: Run, other: Run) -> Run | None:
    start, stop = max(one[0], other[0]), min(one[1], other[1])
    return (start, stop) if start < stop else None
