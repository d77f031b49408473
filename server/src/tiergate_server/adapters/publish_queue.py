"""The bounded queue between those who publish and the one thread that commits.

Putting never waits for the disk: the lock is only held to move items in memory. What becomes of a taken item is the
committer's business.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from tiergate_client.errors import MetadataLogUnavailable

_MAX_QUEUED_RECORDS = 8192
_MAX_QUEUED_BYTES = 64 << 20
_MAX_BATCH_RECORDS = 1024
_MAX_BATCH_BYTES = 8 << 20
_FULL_RETRY_AFTER_MS = 100
_CLOSED_RETRY_AFTER_MS = 1000


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A record that waits to be appended, and the promise of its offset."""

    partition: int
    value: bytes
    future: Future[int] = field(default_factory=Future)


class PublishQueue:
    def __init__(
        self, *, max_queued_records: int = _MAX_QUEUED_RECORDS, max_queued_bytes: int = _MAX_QUEUED_BYTES
    ) -> None:
        self._max_queued_records = max_queued_records
        self._max_queued_bytes = max_queued_bytes
        self._items: deque[PendingRecord] = deque()
        self._queued_bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: PendingRecord) -> None:
        """Queues the item, or fails its future with MetadataLogUnavailable when the queue is full or closed."""
        with self._changed:
            refusal = self._refusal(item)
            if refusal is None:
                self._items.append(item)
                self._queued_bytes += len(item.value)
                self._changed.notify()
        if refusal is not None:
            item.future.set_exception(refusal)

    def take(self) -> list[PendingRecord]:
        """Waits for items and claims a bounded batch of them; empty once the queue is closed and drained.

        A claimed future can no longer be cancelled; one that was cancelled before is not in the batch.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._closed)
                if not self._items:
                    return []
                candidates = self._next_batch()
            if batch := [item for item in candidates if item.future.set_running_or_notify_cancel()]:
                return batch

    def close(self) -> None:
        """Refuses further items; those that are queued can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _refusal(self, item: PendingRecord) -> MetadataLogUnavailable | None:
        if self._closed:
            return MetadataLogUnavailable(
                "The event log is closed: publish again when the server is back.", retry_after_ms=_CLOSED_RETRY_AFTER_MS
            )
        fits = self._queued_bytes + len(item.value) <= self._max_queued_bytes or not self._items
        if len(self._items) >= self._max_queued_records or not fits:
            return MetadataLogUnavailable(
                f"The event log has {len(self._items)} records waiting for the disk: publish again a little later.",
                retry_after_ms=_FULL_RETRY_AFTER_MS,
            )
        return None

    def _next_batch(self) -> list[PendingRecord]:
        batch: list[PendingRecord] = []
        batch_bytes = 0
        while self._items and len(batch) < _MAX_BATCH_RECORDS:
            batch_bytes += len(self._items[0].value)
            if batch and batch_bytes > _MAX_BATCH_BYTES:
                break
            batch.append(self._items.popleft())
        self._queued_bytes -= sum(len(item.value) for item in batch)
        return batch
