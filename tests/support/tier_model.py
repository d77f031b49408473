"""What a consumer of a tiered log is to see, told from the logs of the leaders, batch by batch: slow and plain.

Knows which batch is which, so it needs neither epochs nor indexes nor checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from support.log_batches import LogBatch, Transaction, transactions_of
from support.replicated_logs import CopiedSegment
from support.tier_in_memory import TierInMemory
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.records.read_split import ReadSplit
from tiergate_client.segment_files import SegmentFile


@dataclass
class TierModel:
    """The log of the newest leader that copied something, and what of it is in any copy."""

    copies: list[CopiedSegment]

    @cached_property
    def newest(self) -> CopiedSegment:
        return max(
            self.copies,
            key=lambda copy: (
                copy.last_epoch,
                copy.metadata.end_offset,
                copy.metadata.event_timestamp_ms,
                copy.metadata.segment_id,
            ),
        )

    @property
    def log(self) -> tuple[LogBatch, ...]:
        return self.newest.leader_log

    @cached_property
    def offsets(self) -> set[int]:
        """Those that can be read, whether they have a record or not."""
        in_log = set(self.log)
        return {
            offset
            for copy in self.copies
            for batch in copy.batches
            if batch in in_log
            for offset in range(max(batch.base_offset, copy.leader_log_start), batch.last_offset + 1)
            if offset >= self.newest.leader_log_start
        }

    @cached_property
    def transactions(self) -> list[Transaction]:
        return transactions_of(self.log)

    @property
    def first_open_offset(self) -> int | None:
        return min((one.first_offset for one in self.transactions if one.marker_offset is None), default=None)

    def rows(self, start: int, stop: int) -> Iterator[tuple[int, int, LogBatch]]:
        """Offset, timestamp and batch of all records, also those of markers."""
        for batch in self.log:
            for offset, timestamp in batch.rows:
                if start <= offset < stop and offset in self.offsets:
                    yield offset, timestamp, batch

    def data(self, start: int, stop: int) -> list[tuple[int, int]]:
        return [row[:2] for row in self.rows(start, stop) if not row[2].is_marker]

    def committed_data(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Of transactions that cross a hole nothing before the hole: whether they were committed may stand in it."""
        holes = {offset for offset in range(start, max(self.offsets, default=0)) if offset not in self.offsets}
        holes = {offset for offset in holes if offset == start or offset - 1 not in holes}
        found = []
        for offset, timestamp, batch in self.rows(start, stop):
            inside = next((one for one in self.transactions if one.holds(batch)), None)
            is_committed = inside is None or (
                inside.marker_offset is not None
                and not inside.is_aborted
                and not any(offset < hole <= inside.marker_offset for hole in holes)
            )
            if not batch.is_marker and is_committed:
                found.append((offset, timestamp))
        return found


def batches_of(split: ReadSplit, tier: TierInMemory) -> Iterator[LogBatch]:
    """Those whose bytes the split names and whose offsets it wants, a range after the other."""
    for wanted in split.ranges:
        copy = tier.copies[wanted.segment.segment_id]
        position = 0
        for batch in copy.batches:
            if wanted.start_position <= position < wanted.stop_position:
                assert position + len(batch.content) <= wanted.stop_position, "a range ends within a batch"
                if batch.last_offset >= wanted.start_offset and batch.base_offset < wanted.stop_offset:
                    yield batch
            position += len(batch.content)
        assert position == len(copy.files[SegmentFile.LOG])


def consumed(plan: PartitionPlan, tier: TierInMemory) -> list[tuple[int, int]]:
    """Offset and timestamp of what Kafka's consumer would give of each split, which follows markers batch by batch."""
    found: list[tuple[int, int]] = []
    for split in plan.splits:
        coming = sorted(((one.first_offset, one.producer_id) for one in split.aborted), reverse=True)
        aborted: set[int] = set()
        for batch in batches_of(split, tier):
            while coming and coming[-1][0] <= batch.last_offset:
                aborted.add(coming.pop()[1])
            if batch.kind == "abort":
                aborted.discard(batch.producer_id)
            is_aborted = batch.kind == "transactional" and batch.producer_id in aborted
            if not batch.is_marker and not is_aborted:
                found += _clipped(batch.rows, split)
    return found


def _clipped(rows: Iterable[tuple[int, int]], split: ReadSplit) -> list[tuple[int, int]]:
    return [row for row in rows if split.start_offset <= row[0] < split.stop_offset]
