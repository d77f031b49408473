"""What a metadata replica has done so far, read off when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tiergate_server.metadata.log_follower import LogFollower

_NAME = "tiergate_metadata_"


class ReplicaCollector(Collector):
    """`follower` gives the one of this moment: there is none while the log is out of reach."""

    def __init__(self, follower: Callable[[], LogFollower | None]) -> None:
        self._follower = follower

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        follower = self._follower()
        hosted = [] if follower is None else list(follower.hosted.values())
        applied = sum(partition.state.applied_events for partition in hosted)
        yield CounterMetricFamily(f"{_NAME}events_applied", "Events of the log that changed the state.", value=applied)
        dropped = CounterMetricFamily(f"{_NAME}events_dropped", "Events of the log without effect.", labels=["reason"])
        dropped.add_metric(["illegal"], sum(partition.state.dropped_events for partition in hosted))
        dropped.add_metric(["unreadable"], sum(partition.skipped_events for partition in hosted))
        yield dropped
        yield GaugeMetricFamily(
            f"{_NAME}ready",
            "1 when this replica has caught up with its log.",
            value=follower is not None and follower.is_ready,
        )
        offsets = GaugeMetricFamily(
            f"{_NAME}applied_offset", "The last offset applied, by partition of the log.", labels=["partition"]
        )
        corrupt = GaugeMetricFamily(
            f"{_NAME}corrupt", "1 when the partition of the log cannot be read any further.", labels=["partition"]
        )
        for partition in hosted:
            offsets.add_metric([str(partition.number)], partition.progress.applied)
            corrupt.add_metric([str(partition.number)], partition.progress.corrupt_at is not None)
        yield offsets
        yield corrupt
