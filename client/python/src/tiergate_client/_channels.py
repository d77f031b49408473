"""gRPC channels: opened when first used, one set per process, because a channel does not survive a fork."""

from __future__ import annotations

import json
from collections.abc import Mapping

import grpc

from tiergate_client._fork_safety import ForkSafe
from tiergate_client.ids import TopicId
from tiergate_client.values import TopicIdPartition

_METADATA = "tiergate.v1.RemoteLogMetadataService"
_STORAGE = "tiergate.v1.RemoteStorageService"
_RECORDS = "tiergate.v1.RecordService"
_INFO = "tiergate.v1.ServerInfoService"
_ADMIN = "tiergate.v1.AdminService"

# Calls that gRPC itself may repeat. Mutations of metadata are repeated by the client, which knows what a lost answer
# means; streams that have begun are resumed by it.
_RETRIED = {
    _METADATA: (
        "GetSegment",
        "FindSegment",
        "FindSegments",
        "FindNextSegmentWithTransactionIndex",
        "GetHighestOffset",
        "GetLogSize",
        "ListSegments",
        "ListPartitions",
    ),
    _STORAGE: (
        "GetUpload",
        "ListUploads",
        "AbortUpload",
        "FetchIndex",
        "BatchFetchIndexes",
        "VerifySegment",
        "DeleteSegment",
        "GetSegmentManifest",
        "ResolveSegment",
    ),
    _RECORDS: ("PlanRead", "FindOffsetByTime"),
    _INFO: ("GetServerInfo",),
    _ADMIN: ("GetAssignment",),
}

SERVICE_CONFIG: Mapping[str, object] = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [
                {"service": service, "method": method} for service, methods in _RETRIED.items() for method in methods
            ],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.2s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}

_OPTIONS = (
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
    # A plane that restarts is back in a second. The four tries of a read, 1.4 s apart in all, must see it reconnected.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A peer that vanished without a word is noticed within 40 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


class Channels(ForkSafe):
    """The channels of this process, by target. Safe to use from many threads."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, grpc.Channel] = {}
        self._closed = False

    def to(self, target: str) -> grpc.Channel:
        with self.lock:
            if self._closed:
                raise RuntimeError("this client is closed")
            if target not in self._open:
                self._open[target] = grpc.insecure_channel(target, options=_OPTIONS)
            return self._open[target]

    def close(self) -> None:
        with self.lock:
            self._closed = True
            for channel in self._open.values():
                channel.close()
            self._open = {}

    def forked(self) -> None:
        super().forked()
        self._inherited = self._open  # the parent's: neither used nor closed here, nor even let go of
        self._open = {}


def routing_hint(partition: TopicIdPartition | None) -> tuple[tuple[str, str], ...]:
    """What a proxy may hash on, so that the calls of one partition meet the same replica."""
    return () if partition is None else routing_hint_by_id(partition.topic_id, partition.partition)


def routing_hint_by_id(topic_id: TopicId, partition: int) -> tuple[tuple[str, str], ...]:
    return (("tiergate-partition", f"{topic_id}/{partition}"),)
