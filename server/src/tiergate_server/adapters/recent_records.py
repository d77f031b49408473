"""The newest records of a log, in memory and within a fixed size, for subscribers that keep up.

Not a copy of the log: a record that is no longer here has to be read from where the log keeps it. It spares a live
subscriber the database, whose every row gives the interpreter lock away: beside a busy thread that can cost 5 ms each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from tiergate_server.adapters.polled_stream import Span
from tiergate_server.metadata.event_log import LogRecord

_MAX_BYTES = 4 << 20
_RECORD_OVERHEAD_BYTES = 400  # the objects around a value


class RecentRecords:
    def __init__(self, *, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: OrderedDict[tuple[int, int], LogRecord] = OrderedDict()
        self._lock = threading.Lock()

    def append(self, records: Iterable[LogRecord]) -> None:
        """Takes records that are durable, in log order; the oldest make room."""
        with self._lock:
            for record in records:
                self._records[record.partition, record.offset] = record
                self._bytes += _size(record)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._records.popitem(last=False)[1])

    def read(self, span: Span, *, max_records: int) -> list[LogRecord]:
        """The records from the beginning of the span; none if the first one is no longer here."""
        found: list[LogRecord] = []
        with self._lock:
            for offset in range(span.first, min(span.end, span.first + max_records)):
                record = self._records.get((span.partition, offset))
                if record is None:
                    break
                found.append(record)
        return found


def _size(record: LogRecord) -> int:
    return len(record.value) + _RECORD_OVERHEAD_BYTES
