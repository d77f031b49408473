"""An EventStream over a reader that fetches ahead, as Kafka's consumer does.

The positions here are the truth about what is subscribed; before it fetches, the polling thread makes the reader
follow them. Where the topic is and how it is read is the reader's business.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_server.metadata.event_log import EventStream, LogRecord, PositionLost, StreamClosed

# How long a change of the subscription, or the end of the stream, may go unnoticed by a poll that waits.
_SLICE_S = 0.1
_LOOK_AGAIN_S = 0.2


@dataclass(slots=True)
class Fetched:
    """What one look at the log brought."""

    records: list[LogRecord] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    """Partitions whose position is at the end of the log."""
    lost: list[int] = field(default_factory=list)
    """Partitions whose position the log does not have. They are no longer fetched."""


class RecordReader(Protocol):
    """Reads partitions from given offsets, for one thread at a time."""

    def assign(self, starts: Mapping[int, int]) -> None: ...

    def unassign(self, partitions: Iterable[int]) -> None:
        """Nothing of them is fetched any more, also of what was read ahead."""

    def fetch(self, *, max_records: int, timeout_s: float) -> Fetched:
        """What has arrived; waits only when that is nothing. A record without a value has an empty one."""

    def close(self) -> None:
        """A second time is fine."""


class WatchedLog(Protocol):
    """What a stream asks its log when a position is gone. Both may block."""

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Raises MetadataLogUnavailable."""

    def verify(self) -> None:
        """Ends the streams if the log itself is no longer the same."""


@dataclass(slots=True, eq=False)
class _Position:
    """One subscription of a partition; a partition that is removed and added again has another one."""

    offset: int
    was_in_log: bool = False
    look_at: float = 0.0


class KafkaStream(EventStream):
    def __init__(
        self,
        log: WatchedLog,
        open_reader: Callable[[], RecordReader],
        *,
        partition_count: int,
        starts: Mapping[int, int],
    ) -> None:
        self._log = log
        self._partition_count = partition_count
        self._wanted: dict[int, _Position] = {}
        self._assigned: dict[int, _Position] = {}
        self._lost: deque[PositionLost] = deque()
        self._ended: str | None = None
        self._lock = threading.Lock()
        self._in_use = threading.Lock()
        self.add(starts)
        self._reader = open_reader()

    def poll(self, *, timeout_s: float, max_records: int = 1000) -> list[LogRecord]:
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}: ask for one record at least")
        deadline = time.monotonic() + timeout_s
        with self._in_use:
            while True:
                self._require_open()
                if self._lost:
                    raise self._lost.popleft()
                self._follow_wishes()
                wait_s = min(_SLICE_S, max(0.0, deadline - time.monotonic()))
                fetched = self._reader.fetch(max_records=max_records, timeout_s=wait_s)
                delivered = self._deliver(fetched)
                for partition in fetched.lost:
                    self._examine(partition)
                if delivered:
                    return delivered
                if time.monotonic() >= deadline and not self._lost:
                    self._require_open()
                    return []

    def add(self, starts: Mapping[int, int]) -> None:
        for partition, start in starts.items():
            if not 0 <= partition < self._partition_count:
                raise ValueError(f"partition {partition} does not exist: the log has 0 to {self._partition_count - 1}")
            if start < 0:
                raise ValueError(f"partition {partition} cannot start at {start}: the first offset is 0")
        with self._lock:
            for partition, start in starts.items():
                self._wanted.setdefault(partition, _Position(start))

    def remove(self, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                self._wanted.pop(partition, None)

    def partitions(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._wanted)

    def end(self, why: str) -> None:
        """No poll delivers any more; the one that notices says why. Does not wait."""
        with self._lock:
            self._ended = self._ended or why

    def close(self) -> None:
        self.end("The stream of the event log was closed.")
        with self._in_use:
            self._reader.close()

    def _require_open(self) -> None:
        if self._ended is not None:
            self._reader.close()
            raise StreamClosed(self._ended)

    def _follow_wishes(self) -> None:
        now = time.monotonic()
        with self._lock:
            gone = [each for each, position in self._assigned.items() if self._wanted.get(each) is not position]
            for partition in gone:
                del self._assigned[partition]
            new = {
                partition: position
                for partition, position in self._wanted.items()
                if partition not in self._assigned and position.look_at <= now
            }
            self._assigned |= new
            starts = {partition: position.offset for partition, position in new.items()}
        if gone:
            self._reader.unassign(gone)
        if starts:
            self._reader.assign(starts)

    def _deliver(self, fetched: Fetched) -> list[LogRecord]:
        """Leaves out what was removed while it was fetched."""
        delivered: list[LogRecord] = []
        with self._lock:
            if self._ended is not None:
                return []
            current = {each: at for each, at in self._assigned.items() if self._wanted.get(each) is at}
            for record in fetched.records:
                position = current.get(record.partition)
                if position is not None and record.offset >= position.offset:
                    position.offset = record.offset + 1
                    position.was_in_log = True
                    delivered.append(record)
            for partition in fetched.ended:
                if partition in current:
                    current[partition].was_in_log = True
        return delivered

    def _examine(self, partition: int) -> None:
        """Drops a partition whose position is gone. One that the log has not reached yet is looked at again later."""
        position = self._assigned.get(partition)
        if position is None:
            return
        if not position.was_in_log and not self._is_cut_off(partition, position):
            position.look_at = time.monotonic() + _LOOK_AGAIN_S
            del self._assigned[partition]
            self._reader.unassign([partition])
            return
        self._log.verify()
        with self._lock:
            if self._wanted.get(partition) is position:
                del self._wanted[partition]
                self._lost.append(PositionLost(partition, position.offset))

    def _is_cut_off(self, partition: int, position: _Position) -> bool:
        try:
            return position.offset < self._log.begin_offsets([partition])[partition]
        except MetadataLogUnavailable:
            return False
