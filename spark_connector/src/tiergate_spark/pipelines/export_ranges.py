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

    The ranges of a plan follow one another from its start to its stop, wave by wave. Where a partition has several
    plans, with offsets between them that are not to be read, the next one begins in a later wave, even if that makes
    waves smaller: one job reads one range of a partition.
    """
    following: dict[int, deque[PartitionPlan]] = {}
    for plan in plans:
        if plan.start_offset < plan.stop_offset:
            following.setdefault(plan.partition.partition, deque()).append(plan)
    waiting = deque(_PlanSplits(behind.popleft()) for behind in following.values())
    waves = []
    while waiting:
        touched: dict[int, _PlanSplits] = {}
        size_bytes = split_count = 0
        while waiting and (size_bytes < wave_bytes or not touched):
            one = waiting.popleft()
            touched[one.partition] = one
            size_bytes += one.take()
            split_count += 1
            if not one.is_done:
                waiting.append(one)
        waves.append(Wave(tuple(one.range() for one in touched.values()), size_bytes, split_count))
        done = [one.partition for one in touched.values() if one.is_done and following[one.partition]]
        waiting.extend(_PlanSplits(following[partition].popleft()) for partition in done)
    return waves


class _PlanSplits:
    """How far the splits of a plan are handed out."""

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
