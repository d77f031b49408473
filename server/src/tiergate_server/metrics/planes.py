"""What each plane counts, for Prometheus. Every object registers with the registry it is given; nothing is global.

How far a metadata replica is with its log is `tiergate_server.metrics.replica_collector`'s to tell.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

# A metadata call takes about a millisecond; the download of a whole segment may take minutes.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def describe_process(registry: CollectorRegistry, *, plane: str, version: str) -> None:
    """Adds what runs here, and the memory, processor time and files that it uses."""
    ProcessCollector(registry=registry)
    Info("tiergate_build", "What runs here.", registry=registry).info({"plane": plane, "version": version})


class RpcMetrics:
    """Calls of either plane. `method` must be a name that is served: one made up by a peer would grow the registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "tiergate_rpc_requests_total", "Calls answered, by status code.", ["method", "code"], registry=registry
        )
        self._seconds = Histogram(
            "tiergate_rpc_seconds", "How long calls took.", ["method"], buckets=_SECONDS, registry=registry
        )
        self._in_flight = Gauge("tiergate_rpc_in_flight", "Calls being served now.", ["method"], registry=registry)

    def started(self, method: str) -> None:
        self._in_flight.labels(method).inc()

    def finished(self, method: str, *, code: str, seconds: float) -> None:
        """Counts a call that was `started`; `code` is the status code's name, such as "NOT_FOUND"."""
        self._in_flight.labels(method).dec()
        self._requests.labels(method, code).inc()
        self._seconds.labels(method).observe(seconds)


class SegmentsMetrics:
    """Bytes of segments and indexes that pass through the segment plane."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received_bytes = Counter(
            "tiergate_segments_received_bytes_total", "Segment data that clients sent.", registry=registry
        )
        self.sent_bytes = Counter(
            "tiergate_segments_sent_bytes_total", "Segment data that was sent to clients.", registry=registry
        )
