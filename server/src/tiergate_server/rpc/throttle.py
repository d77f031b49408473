"""Holds the calls that move segment data to the quotas, and counts what that costs them.

How long a piece waits is `tiergate_server.segments.quota`'s to decide.
"""

from __future__ import annotations

import time

import grpc

from tiergate_server.metrics import SegmentsMetrics
from tiergate_server.segments.quota import Quota

# Less is the way through the quota itself, not a wait.
_NOTICEABLE_S = 0.001


class Throttle:
    def __init__(self, *, copy: Quota, fetch: Quota, metrics: SegmentsMetrics) -> None:
        self._copy = copy
        self._fetch = fetch
        self._metrics = metrics

    def copying(self, topic: str, size_bytes: int, context: grpc.ServicerContext) -> None:
        """Waits as long as it takes: a client that is not read from stops sending."""
        self._wait(self._copy, "copy", topic, size_bytes, context)

    def fetching(self, topic: str, size_bytes: int, context: grpc.ServicerContext) -> None:
        """Raises LimitExceeded when the wait would be too long."""
        self._wait(self._fetch, "fetch", topic, size_bytes, context)

    def limits(self) -> dict[str, int]:
        return self._copy.limits() | self._fetch.limits()

    def _wait(self, quota: Quota, direction: str, topic: str, size_bytes: int, context: grpc.ServicerContext) -> None:
        begin_s = time.monotonic()
        try:
            quota.take(topic, size_bytes, is_wanted=context.is_active)
        finally:
            waited_s = time.monotonic() - begin_s
            if waited_s >= _NOTICEABLE_S:
                self._metrics.throttled_bytes.labels(direction).inc(size_bytes)
                self._metrics.throttle_seconds.labels(direction).inc(waited_s)
