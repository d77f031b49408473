"""Divides what is to be exported into waves: ranges of some partitions, which one job of Spark's writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tiergate_client.records.read_plan import PartitionPlan
from tiergate_spark.pipelines.export_layout import OffsetRange


@dataclass(frozen=True, slots=True)
class Wave:
    """Ranges of different partitions."""

    ranges: tuple[OffsetRange, ...]
    size_bytes: int
    split_count: int


def divided(plans: Iterable[PartitionPlan], *, wave_bytes: int) -> list[Wave]:
    """Waves of at least `wave_bytes`, but for the last. Partitions take turns, so that all of them have work longest.

    The ranges of a partition follow one another from the plan's start to its stop, wave by wave.
    """
    waiting = deque(_PartitionSplits(plan) for plan in plans if plan.start_offset < plan.stop_offset)
    waves = []
    while waiting:
        touched: dict[int, _PartitionSplits] = {}
        size_bytes = split_count = 0
        while waiting and (size_bytes < wave_bytes or not touched):
            one = waiting.popleft()
            touched[one.partition] = one
            size_bytes += one.take()
            split_count += 1
            if not one.is_done:
                waiting.append(one)
        waves.append(Wave(tuple(one.range() for one in touched.values()), size_bytes, split_count))
    return waves


class _PartitionSplits:
    """How far the splits of a partition are handed out."""

    def __init__(self, plan: PartitionPlan) -> None:
        self.partition = plan.partition.partition
        self._plan = plan
        self._taken = 0
        self._start_offset = plan.start_offset

    @property
    def is_done(self) -> bool:
        return self._taken >= len(self._plan.splits)

    def take(self) -> int:
        """The size of the next split. A plan without any, whose offsets hold no batches, is done by one turn too."""
        size_bytes = 0 if self.is_done else self._plan.splits[self._taken].size_bytes
        self._taken += 1
        return size_bytes

    def range(self) -> OffsetRange:
        """What was taken since the last time: up to the next split, so that no offset is between two ranges."""
        stop = self._plan.stop_offset if self.is_done else self._plan.splits[self._taken].start_offset
        taken = OffsetRange(self.partition, self._start_offset, stop)
        self._start_offset = stop
        return taken
