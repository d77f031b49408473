"""A log in memory whose publishing and delivery the test can hold back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from tiergate_client.ids import LogId
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.metadata.event_log import EventStream, LogRecord, MetadataEventLog, PositionLost


class GatedLog(MetadataEventLog):
    def __init__(self) -> None:
        self._log = MemoryEventLog()
        self._may_deliver = threading.Event()
        self._may_deliver.set()
        self._held: list[tuple[int, bytes, Future[int]]] | None = None
        self._losses: list[int] = []
        self._begins: dict[int, int] = {}

    @property
    def log_id(self) -> LogId:
        return self._log.log_id

    @property
    def partition_count(self) -> int:
        return self._log.partition_count

    def hold_delivery(self) -> None:
        self._may_deliver.clear()

    def release_delivery(self) -> None:
        self._may_deliver.set()

    def lose(self, partition: int, *, begin: int) -> None:
        """The log no longer holds what comes next: a subscriber is told, once."""
        self._losses.append(partition)
        self._begins[partition] = begin

    def hold_publishing(self) -> None:
        self._held = []

    def release_publishing(self) -> None:
        held, self._held = self._held or [], None
        for partition, value, future in held:
            if future.set_running_or_notify_cancel():
                future.set_result(self._log.publish(partition, value).result())

    def publish(self, partition: int, value: bytes) -> Future[int]:
        if self._held is None:
            return self._log.publish(partition, value)
        future: Future[int] = Future()
        self._held.append((partition, value, future))
        return future

    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        return _GatedStream(self._log.subscribe(starts), self._may_deliver, self._losses)

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return {partition: self._begins.get(partition, 0) for partition in partitions}

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._log.end_offsets(partitions)

    def close(self) -> None:
        self._may_deliver.set()
        self._log.close()


class _GatedStream(EventStream):
    def __init__(self, stream: EventStream, may_deliver: threading.Event, losses: list[int]) -> None:
        self._stream = stream
        self._may_deliver = may_deliver
        self._losses = losses

    def poll(self, *, timeout_s: float, max_records: int = 1000) -> list[LogRecord]:
        if self._losses:
            lost = self._losses.pop()
            self._stream.remove([lost])
            raise PositionLost(lost, -1)
        if not self._may_deliver.wait(timeout_s):
            return []
        records = self._stream.poll(timeout_s=timeout_s, max_records=max_records)
        self._may_deliver.wait()
        return records

    def add(self, starts: Mapping[int, int]) -> None:
        self._stream.add(starts)

    def remove(self, partitions: Iterable[int]) -> None:
        self._stream.remove(partitions)

    def partitions(self) -> frozenset[int]:
        return self._stream.partitions()

    def close(self) -> None:
        self._may_deliver.set()
        self._stream.close()
