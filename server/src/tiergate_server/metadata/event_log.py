"""The seam between the metadata domain and whatever keeps its events in order.

A log has a fixed number of partitions; each one is a sequence of records with ascending offsets from 0. Log order is
the truth. What the bytes mean is not the log's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from tiergate_client.ids import LogId


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event as the log holds it."""

    partition: int
    offset: int
    value: bytes
    leader_epoch: int = -1
    """The log's own epoch of this record, where it has such a thing: a log that diverged has another one here."""


class EventLogRefused(Exception):
    """The log cannot be opened as it is configured; the message says why and what to do."""


class StreamClosed(Exception):
    """The stream, or the log behind it, was closed: nothing more will come. The text, if any, says why."""


class PositionLost(Exception):
    """The log no longer holds what comes next in a partition: it was cut off below, or above, that position.

    What was applied of that partition may never have been in the log as it is now. The stream has dropped it.
    """

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(f"partition {partition} of the log no longer holds offset {offset}")
        self.partition = partition
        self.offset = offset


class EventStream(ABC):
    """What a subscriber reads. One thread polls; the other methods may be called from any thread.

    Every record of a subscribed partition, from its first offset on, is delivered exactly once and in offset order;
    partitions are not ordered among each other. Nothing of a partition is delivered after `remove` has returned.
    """

    @abstractmethod
    def poll(self, *, timeout_s: float, max_records: int = 1000) -> list[LogRecord]:
        """The next records; empty when none came in time.

        Raises StreamClosed, also while it waits; PositionLost, once, for a partition that was dropped for it;
        MetadataLogUnavailable when the log cannot be read now: positions stay, so poll again.
        """

    @abstractmethod
    def add(self, starts: Mapping[int, int]) -> None:
        """Subscribes further partitions, each from an inclusive first offset. One that is there stays where it is."""

    @abstractmethod
    def remove(self, partitions: Iterable[int]) -> None:
        """Unsubscribes partitions. One that is not there is fine."""

    @abstractmethod
    def partitions(self) -> frozenset[int]:
        """What is subscribed now."""

    @abstractmethod
    def close(self) -> None:
        """Ends the stream; a second time is fine."""


class MetadataEventLog(ABC):
    """An ordered, durable log of events. Safe to use from many threads.

    Several subscribers of one log each see every record, whoever published it.
    """

    @property
    @abstractmethod
    def log_id(self) -> LogId:
        """Names this incarnation of the log: offsets of another one mean nothing here."""

    @property
    @abstractmethod
    def partition_count(self) -> int:
        """Fixed for the life of the log."""

    @abstractmethod
    def publish(self, partition: int, value: bytes) -> Future[int]:
        """Appends a record; the future holds its offset once it is durable.

        Cancelling the future succeeds only while the record has surely not been appended, and then it never is. The
        future fails with MetadataLogUnavailable when the record was surely not appended, with CommitStateUnknown when
        that is not known. Raises ValueError for a partition that does not exist.
        """

    @abstractmethod
    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        """A stream of the partitions' records, each from an inclusive first offset."""

    @abstractmethod
    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """The lowest offset that each partition still holds, or its end. May block.

        Raises MetadataLogUnavailable.
        """

    @abstractmethod
    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset that the next record of each partition will have. May block.

        Raises MetadataLogUnavailable.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends every stream and refuses further publishing; a second time is fine."""
