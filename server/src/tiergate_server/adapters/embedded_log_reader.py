"""An embedded log as it is at one moment, read without owning it: a plane may go on writing to it.

For looking into a log and for copying it. What is appended later is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path

from tiergate_client.errors import ReadOnly
from tiergate_client.ids import LogId
from tiergate_server.adapters.embedded_log import SpanReader, read_state
from tiergate_server.adapters.polled_stream import LogProgress, PolledStream
from tiergate_server.adapters.recent_records import RecentRecords
from tiergate_server.metadata.event_log import EventStream, MetadataEventLog


class EmbeddedLogReader(MetadataEventLog):
    def __init__(self, path: Path) -> None:
        """Raises EventLogRefused when there is no log."""
        self._path = path.resolve()
        self._log_id, ends = read_state(self._path)
        self._progress = LogProgress(ends)
        self._streams: list[EventStream] = []

    @property
    def log_id(self) -> LogId:
        return self._log_id

    @property
    def partition_count(self) -> int:
        return len(self._progress.ends)

    def publish(self, partition: int, value: bytes) -> Future[int]:  # noqa: ARG002
        self._progress.require([partition])
        refused: Future[int] = Future()
        refused.set_exception(ReadOnly(f"{self._path} is only read here: nothing can be appended."))
        return refused

    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        stream = PolledStream(self._progress, SpanReader(self._path, RecentRecords()), starts=starts)
        self._streams.append(stream)
        return stream

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._progress.ends_of(partitions)

    def close(self) -> None:
        self._progress.close()
        for stream in self._streams:
            stream.close()
