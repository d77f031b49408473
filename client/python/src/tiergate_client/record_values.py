"""Records and plans of reads as plain values, without the extra `records`. How they are sent is not decided here."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from tiergate_client.values import TopicIdPartition


class RecordTimestampType(enum.Enum):
    """What a record's timestamp is, by Kafka's names."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class RecordHeader(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record. A tuple, because there are millions of them and a dataclass takes four times as long to make."""

    offset: int
    timestamp_ms: int
    timestamp_type: RecordTimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]

    @property
    def size_bytes(self) -> int:
        """Of key, value and headers."""
        headers = sum(len(header.key.encode()) + len(header.value or b"") for header in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from start_offset on, below stop_offset."""

    start_offset: int
    stop_offset: int


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A part of a planned read. `content` is all that a reader needs: give it to `read_split`, here or elsewhere."""

    start_offset: int
    stop_offset: int
    size_bytes: int
    content: bytes


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """What PlanRead answers: the range, what of it is missing, and the splits that cover the rest."""

    partition: TopicIdPartition
    start_offset: int
    stop_offset: int
    missing: tuple[OffsetRange, ...]
    splits: tuple[PlannedSplit, ...]


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The first record that is at least as late as a time; without an epoch where that is unknown."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """Every transactional batch of the producer from the first offset to the last, its abort marker's, was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
