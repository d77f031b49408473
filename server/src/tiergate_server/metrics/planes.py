"""What each plane counts, for Prometheus. Every object registers with the registry it is given; nothing is global.

How far a metadata replica is with its log is `tiergate_server.metrics.replica_collector`'s to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

# A metadata call takes about a millisecond; the download of a whole segment may take minutes.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def describe_process(registry: CollectorRegistry, *, plane: str, version: str) -> None:
    """Adds what runs here, and the memory, processor time and files that it uses."""
    ProcessCollector(registry=registry)
    describe_build(registry, plane=plane, version=version)


def describe_build(registry: CollectorRegistry, *, plane: str, version: str) -> None:
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
        self._in_flight = Gauge(
            "tiergate_rpc_in_flight",
            "Calls being served now.",
            ["method"],
            registry=registry,
            multiprocess_mode="livesum",
        )

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
        self.damages = Counter(
            "tiergate_segments_damages_total",
            "Files and blocks that a verification found missing or different.",
            registry=registry,
        )
        self.skipped_offsets = Counter(
            "tiergate_segments_skipped_offsets_total",
            "Offsets that plans and reads of records passed over because they are missing.",
            registry=registry,
        )
        self.throttled_bytes = Counter(
            "tiergate_segments_throttled_bytes_total",
            "Segment data that had to wait for a quota, or was refused by one.",
            ["direction"],
            registry=registry,
        )
        self.throttle_seconds = Counter(
            "tiergate_segments_throttle_seconds_total",
            "How long segment data waited for a quota.",
            ["direction"],
            registry=registry,
        )


class CacheMetrics:
    """How the segment plane's caches of manifests and indexes do, one for each store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lookups = Counter(
            "tiergate_segments_cache_lookups_total",
            "Manifests and indexes that a cache was asked for, and whether it had them.",
            ["store", "kind", "result"],
            registry=registry,
        )
        self._bytes = Gauge(
            "tiergate_segments_cache_bytes",
            "Memory that a cache holds.",
            ["store"],
            registry=registry,
            multiprocess_mode="livesum",
        )

    def of(self, store: str) -> StoreCacheMetrics:
        return StoreCacheMetrics(store, self._lookups, self._bytes)


@dataclass(frozen=True, slots=True)
class StoreCacheMetrics:
    store: str
    lookups: Counter
    size_bytes: Gauge

    def looked_up(self, kind: str, *, is_hit: bool) -> None:
        self.lookups.labels(self.store, kind, "hit" if is_hit else "miss").inc()

    def holds(self, size_bytes: int) -> None:
        self.size_bytes.labels(self.store).set(size_bytes)
