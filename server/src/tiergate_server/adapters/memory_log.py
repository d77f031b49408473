"""An event log in memory, for tests and trials. Nothing survives the process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.polled_stream import LogProgress, PolledStream, Span
from tiergate_server.metadata.event_log import EventStream, LogRecord, MetadataEventLog

_logger = logging.getLogger(__name__)


class MemoryEventLog(MetadataEventLog):
    def __init__(self, *, partition_count: int = 50) -> None:
        if partition_count < 1:
            raise ValueError(f"partition_count is {partition_count}: a log has one partition at least")
        self._log_id = LogId.random()
        self._values: list[list[bytes]] = [[] for _ in range(partition_count)]
        self._progress = LogProgress([0] * partition_count)
        _logger.warning("The metadata log is kept in memory: nothing of it survives this process.")

    @property
    def log_id(self) -> LogId:
        return self._log_id

    @property
    def partition_count(self) -> int:
        return len(self._values)

    def publish(self, partition: int, value: bytes) -> Future[int]:
        self._progress.require([partition])
        future: Future[int] = Future()
        values = self._values[partition]
        with self._progress.changed:
            appended = not self._progress.closed
            if appended:
                values.append(value)
                end = len(values)
                self._progress.advance({partition: end})
        if appended:
            future.set_result(end - 1)
        else:
            future.set_exception(MetadataLogUnavailable("The event log is closed: nothing was appended."))
        return future

    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        return PolledStream(self._progress, _MemoryReader(self._values), starts=starts)

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._progress.ends_of(partitions)

    def close(self) -> None:
        self._progress.close()


class _MemoryReader:
    """Reads lists that only ever grow, so it needs no lock."""

    def __init__(self, values: list[list[bytes]]) -> None:
        self._values = values

    def read(self, spans: Iterable[Span], *, max_records: int) -> list[LogRecord]:
        records: list[LogRecord] = []
        for span in spans:
            end = min(span.end, span.first + max_records - len(records))
            values = self._values[span.partition][span.first : end]
            records += [LogRecord(span.partition, offset, value) for offset, value in enumerate(values, span.first)]
        return records

    def close(self) -> None:
        """There is nothing to let go."""
