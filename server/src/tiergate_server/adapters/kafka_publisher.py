"""The way of a record from `publish` to its offset: sent at once while Kafka answers, held back while it does not.

What is held back can still be cancelled, so that a call whose deadline passes during an outage leaves nothing behind
that is appended later. What the producer's errors mean is not decided here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from tiergate_client.errors import MetadataLogUnavailable, TiergateError

_logger = logging.getLogger(__name__)

_STALLED_AFTER_S = 1.0
_SERVE_S = 0.1
_REBUILD_AFTER_S = 1.0
_MAX_HELD_RECORDS = 8192
_RETRY_AFTER_MS = 1000


class NotSent(Exception):
    """The producer did not take the record; the message says why."""


Delivered = Callable[[int | None, TiergateError | None], None]
"""Called once for a record that was sent: with its offset, or with what went wrong."""


class RecordProducer(Protocol):
    """Sends records; `serve` runs the callbacks, in the thread that calls it."""

    is_broken: bool
    """After a fatal error nothing can be sent any more: make another one."""

    def send(self, partition: int, value: bytes, delivered: Delivered) -> None:
        """Never waits. Raises NotSent."""

    def serve(self, timeout_s: float) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def abandon(self) -> None:
        """Gives every record up that has no report yet, and reports that."""


@dataclass(slots=True)
class _Lane:
    """One partition. Held records keep their order behind those that were sent."""

    sent: int = 0
    last_report_at: float = 0.0
    last_failed: bool = False
    held: deque[_Held] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Held:
    value: bytes
    future: Future[int]
    expires_at: float


class KafkaPublisher:
    def __init__(
        self,
        make_producer: Callable[[], RecordProducer],
        *,
        delivery_timeout_s: float,
        stalled_after_s: float = _STALLED_AFTER_S,
    ) -> None:
        self._stalled_after_s = stalled_after_s
        self._make_producer = make_producer
        self._producer = make_producer()
        self._delivery_timeout_s = delivery_timeout_s
        self._lanes: defaultdict[int, _Lane] = defaultdict(_Lane)
        self._held_count = 0
        self._ended: str | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._server = threading.Thread(target=self._serve, name="kafka-publisher", daemon=True)
        self._server.start()

    def publish(self, partition: int, value: bytes) -> Future[int]:
        future: Future[int] = Future()
        now = time.monotonic()
        with self._lock:
            refusal = self._ended
            lane = self._lanes[partition]
            if refusal is None and not lane.held and self._may_send(lane, now):
                refusal = self._send(partition, lane, value, future, now)
            elif refusal is None and self._held_count >= _MAX_HELD_RECORDS:
                refusal = f"{self._held_count} records wait for Kafka"
            elif refusal is None:
                self._held_count += 1
                lane.held.append(_Held(value, future, now + self._delivery_timeout_s))
        if refusal is not None:
            _fail(future, refusal)
        return future

    def close(self, why: str, *, flush_s: float) -> None:
        """Refuses what comes and what is held, and waits that long for what was sent. A second time is fine."""
        with self._lock:
            first, self._ended = self._ended is None, self._ended or why
            held = [item for lane in self._lanes.values() for item in lane.held]
            for lane in self._lanes.values():
                lane.held.clear()
            self._held_count = 0
        for item in held:
            _fail(item.future, why)
        if first:
            self._producer.flush(flush_s)
            self._stop.set()
            self._server.join()
            self._producer.abandon()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                self._producer.serve(_SERVE_S)
                if self._producer.is_broken:
                    self._rebuild()
                if self._held_count:
                    self._release()
            except Exception:  # a defect here must not leave publishers waiting for ever
                _logger.exception("Serving Kafka's producer failed; it goes on")
                self._stop.wait(_REBUILD_AFTER_S)

    def _rebuild(self) -> None:
        """Everything that was sent has its report before the next producer starts: order is kept."""
        _logger.warning("Kafka's producer can no longer be used after a fatal error; a new one takes its place")
        self._producer.abandon()
        if not self._stop.wait(_REBUILD_AFTER_S):
            producer = self._make_producer()
            with self._lock:
                self._producer = producer

    def _release(self) -> None:
        """Sends what was held back and may go now; what waited too long was surely not appended."""
        now = time.monotonic()
        refused: list[tuple[Future[int], str]] = []
        with self._lock:
            for partition, lane in self._lanes.items():
                while lane.held and (lane.held[0].expires_at < now or self._may_send(lane, now)):
                    item = lane.held.popleft()
                    self._held_count -= 1
                    if item.expires_at < now:
                        refused.append((item.future, "Kafka did not answer in time"))
                    elif problem := self._send(partition, lane, item.value, item.future, now):
                        refused.append((item.future, problem))
        for future, problem in refused:
            _fail(future, problem)

    def _may_send(self, lane: _Lane, now: float) -> bool:
        """After a failure one record at a time is tried; while reports stay out, none."""
        if self._producer.is_broken:
            return False
        return not lane.sent or (not lane.last_failed and now - lane.last_report_at < self._stalled_after_s)

    def _send(self, partition: int, lane: _Lane, value: bytes, future: Future[int], now: float) -> str | None:
        """The reason when it was not sent. Called with the lock held, which keeps the order; it never waits."""
        if not future.set_running_or_notify_cancel():
            return None
        if not lane.sent:
            lane.last_report_at = now

        def delivered(offset: int | None, error: TiergateError | None) -> None:
            with self._lock:
                lane.sent -= 1
                lane.last_report_at = time.monotonic()
                lane.last_failed = error is not None
            if error is not None:
                future.set_exception(error)
            elif offset is not None:
                future.set_result(offset)

        try:
            self._producer.send(partition, value, delivered)
        except NotSent as reason:
            return str(reason)
        lane.sent += 1
        return None


def _fail(future: Future[int], why: str) -> None:
    if future.running() or future.set_running_or_notify_cancel():
        future.set_exception(
            MetadataLogUnavailable(f"The record was not appended ({why}): try again.", retry_after_ms=_RETRY_AFTER_MS)
        )
