"""An EventStream over a log that can be read by offset, and the bell that wakes it.

The stream keeps positions, nothing else: records stay in the log until they are asked for, so a subscriber costs the
same however far behind it is. Where the records are kept is the reader's business.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_server.metadata.event_log import EventStream, LogRecord, StreamClosed


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [first, end) of a partition; all of them are in the log."""

    partition: int
    first: int
    end: int


class SpanReader(Protocol):
    """Reads records for one stream."""

    def read(self, spans: Iterable[Span], *, max_records: int) -> list[LogRecord]:
        """At least one record, from the beginning of the spans in their order. Raises StreamClosed after `close`."""

    def close(self) -> None:
        """May be called from any thread and more than once."""


class LogProgress:
    """How far each partition of the log reaches. Its condition guards this and the positions of every stream."""

    def __init__(self, ends: Iterable[int]) -> None:
        self.changed = threading.Condition()
        self.ends = list(ends)
        self.closed = False

    def require(self, partitions: Iterable[int]) -> None:
        """Raises ValueError for a partition that does not exist."""
        for partition in partitions:
            if not 0 <= partition < len(self.ends):
                raise ValueError(f"partition {partition} does not exist: the log has 0 to {len(self.ends) - 1}")

    def ends_of(self, partitions: Iterable[int]) -> dict[int, int]:
        """Raises ValueError for a partition that does not exist, MetadataLogUnavailable when the log is closed."""
        wanted = list(partitions)
        self.require(wanted)
        with self.changed:
            if self.closed:
                raise MetadataLogUnavailable("The event log is closed: ask again when the server is back.")
            return {partition: self.ends[partition] for partition in wanted}

    def advance(self, ends: Mapping[int, int]) -> None:
        with self.changed:
            for partition, end in ends.items():
                self.ends[partition] = end
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class PolledStream(EventStream):
    """The stream of one subscriber. A `poll` that was under way during `remove` leaves the removed records out."""

    def __init__(self, progress: LogProgress, reader: SpanReader, *, starts: Mapping[int, int]) -> None:
        self._progress = progress
        self._reader = reader
        self._positions: dict[int, int] = {}
        self._last_served = -1
        self._closed = False
        self.add(starts)

    def poll(self, *, timeout_s: float, max_records: int = 1000) -> list[LogRecord]:
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}: ask for one record at least")
        deadline = time.monotonic() + timeout_s
        while True:
            with self._progress.changed:
                spans = self._progress.changed.wait_for(self._unread_spans, timeout=deadline - time.monotonic())
            if not spans:
                return []
            # Read without the lock: this is disk work, and the positions may change meanwhile.
            if records := self._deliver(self._reader.read(spans, max_records=max_records)):
                return records

    def add(self, starts: Mapping[int, int]) -> None:
        self._progress.require(starts)
        for partition, start in starts.items():
            if start < 0:
                raise ValueError(f"partition {partition} cannot start at {start}: the first offset is 0")
        with self._progress.changed:
            for partition, start in starts.items():
                self._positions.setdefault(partition, start)
            self._progress.changed.notify_all()

    def remove(self, partitions: Iterable[int]) -> None:
        with self._progress.changed:
            for partition in partitions:
                self._positions.pop(partition, None)

    def partitions(self) -> frozenset[int]:
        with self._progress.changed:
            return frozenset(self._positions)

    def close(self) -> None:
        with self._progress.changed:
            self._closed = True
            self._progress.changed.notify_all()
        self._reader.close()

    def _unread_spans(self) -> list[Span]:
        self._require_open()
        ends = self._progress.ends
        spans = [Span(partition, at, ends[partition]) for partition, at in self._positions.items()]
        # The partition served last goes to the back, so that a long backlog keeps none of the others waiting.
        return sorted(
            (span for span in spans if span.first < span.end),
            key=lambda span: (span.partition <= self._last_served, span.partition),
        )

    def _deliver(self, records: list[LogRecord]) -> list[LogRecord]:
        delivered: list[LogRecord] = []
        with self._progress.changed:
            self._require_open()
            for record in records:
                # Also right when the partition was removed and added again elsewhere while this was read.
                if self._positions.get(record.partition) == record.offset:
                    self._positions[record.partition] = record.offset + 1
                    delivered.append(record)
            if delivered:
                self._last_served = delivered[-1].partition
        return delivered

    def _require_open(self) -> None:
        if self._closed or self._progress.closed:
            raise StreamClosed("The stream of the event log was closed.")
