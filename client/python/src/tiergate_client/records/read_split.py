"""What one reader is told to read: offsets, the bytes that hold them, and the transactions to leave out.

A split needs nothing but the segment plane: it was planned once, in `read_plan.py`, and is read anywhere, any number of
times, with the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.errors import InvalidField
from tiergate_client.records.transaction_index import AbortedTransaction
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Batches of one segment: those that begin in [start_position, stop_position) of its log.

    Both positions are borders of batches, or the log's end. Of the batches, only records in
    [start_offset, stop_offset) are wanted: batches at both ends may hold others, or none that is wanted, and what is
    wrong with those is no matter.
    """

    segment: RemoteLogSegmentMetadata
    start_offset: int
    stop_offset: int
    start_position: int
    stop_position: int

    def __post_init__(self) -> None:
        if not 0 <= self.start_offset <= self.stop_offset:
            raise InvalidField.of("start_offset", f"{self.start_offset} is not within 0 and {self.stop_offset}")
        if not 0 <= self.start_position <= self.stop_position <= self.segment.segment_size_bytes:
            raise InvalidField.of(
                "start_position",
                f"[{self.start_position}, {self.stop_position}) is not within the "
                f"{self.segment.segment_size_bytes} bytes of segment {self.segment.segment_id}",
            )

    @property
    def size_bytes(self) -> int:
        return self.stop_position - self.start_position


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """A run of one partition's history, in ranges that follow one another."""

    partition: TopicIdPartition
    ranges: tuple[SegmentRange, ...]
    aborted: tuple[AbortedTransaction, ...] = ()
    """Whose batches are left out: none for readers of uncommitted data."""

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.ranges)

    @property
    def start_offset(self) -> int:
        return self.ranges[0].start_offset

    @property
    def stop_offset(self) -> int:
        return self.ranges[-1].stop_offset
