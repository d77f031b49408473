"""What holds for every call, on either kind of server: how many run at once, and what a failure looks like outside."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client.errors import DataLoss, InternalError, LimitExceeded, TiergateError
from tiergate_server.metrics import RpcMetrics

_logger = logging.getLogger(__name__)

_RETRY_AFTER_MS = 250
_HEALTH_CALLS = 32
_REFLECTION_CALLS = 8


def is_exempt(method: str) -> bool:
    return method.startswith("/grpc.")


class ConcurrencyLimit:
    """At most so many at once; one more is refused, by name."""

    def __init__(self, name: str, value: int) -> None:
        self.name = name
        self.value = value
        self._running = 0
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        return self._running == 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        with self._lock:
            if self._running >= self.value:
                raise LimitExceeded.of(
                    self.name,
                    self.value,
                    f"the server runs {self.value} of these at once ({self.name}); try again a little later",
                    retry_after_ms=_RETRY_AFTER_MS,
                )
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1


class CallLimits:
    """Which limit counts a method. Health and reflection have their own: they answer when all else is refused."""

    def __init__(self, calls: ConcurrencyLimit) -> None:
        self._calls = calls
        self._health = ConcurrencyLimit("health_calls", _HEALTH_CALLS)
        self._reflection = ConcurrencyLimit("reflection_calls", _REFLECTION_CALLS)

    def of(self, method: str) -> ConcurrencyLimit:
        if method.startswith("/grpc.health."):
            return self._health
        if method.startswith("/grpc.reflection."):
            return self._reflection
        return self._calls

    def values(self) -> dict[str, int]:
        return {limit.name: limit.value for limit in (self._calls, self._health, self._reflection)}


class CallRecord:
    """One call, from its begin to its code."""

    def __init__(self, metrics: RpcMetrics, method: str) -> None:
        self._metrics = metrics
        self._method = method
        self._begin = time.monotonic()
        metrics.started(method)

    def finish(self, code: str) -> None:
        seconds = time.monotonic() - self._begin
        self._metrics.finished(self._method, code=code, seconds=seconds)
        _logger.debug("%s %s in %.1f ms", self._method, code, seconds * 1000)


def as_outside_error(failure: Exception, method: str) -> TiergateError:
    """The failure as its caller sees it: what was unforeseen is logged, and only its incident id goes out."""
    if isinstance(failure, DataLoss):
        _logger.error("data loss in %s: %s", method, failure.message, extra=dict(failure.details))
    if isinstance(failure, TiergateError):
        return failure
    incident = secrets.token_hex(6)
    _logger.error("incident %s in %s", incident, method, exc_info=failure)
    return InternalError(
        f"an unforeseen failure; the server's log has it as incident {incident}", details={"incident": incident}
    )
