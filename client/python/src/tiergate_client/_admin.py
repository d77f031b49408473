"""What an operator asks of one replica of the metadata plane: the client of AdminService.

Each call concerns the replica that answers it, so connect to that one, not to a load balancer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from tiergate.v1 import admin_pb2 as pb
from tiergate.v1 import admin_pb2_grpc
from tiergate_client._channels import Channels
from tiergate_client.ids import TopicId
from tiergate_client.integers import require_int32
from tiergate_client.status import from_rpc_error


@dataclass(frozen=True, slots=True)
class HostedPartition:
    """One metadata partition as a replica has it."""

    metadata_partition: int
    applied_offset: int
    """Of the last event applied, -1 when there was none."""
    ready: bool
    corrupt_at: int | None
    """Where the log became unreadable."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The metadata partitions that a replica hosts, ascending, out of all `partition_count` of the log."""

    partition_count: int
    hosted: tuple[HostedPartition, ...]


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that is durable."""

    location: str
    size_bytes: int


class Admin:
    """Safe to use from many threads. Every call raises MetadataNotReady while the log was not reached yet."""

    def __init__(self, channels: Channels, *, target: str, timeout_s: float) -> None:
        self._channels = channels
        self._target = target
        self._timeout_s = timeout_s

    def get_assignment(self) -> Assignment:
        answer: pb.GetAssignmentResponse = self._call("GetAssignment", pb.GetAssignmentRequest())
        return Assignment(answer.partition_count, tuple(_hosted(partition) for partition in answer.hosted))

    def set_assignment(
        self,
        *,
        metadata_partitions: Sequence[int] = (),
        user_partitions: Sequence[tuple[TopicId, int]] = (),
    ) -> tuple[int, ...]:
        """Replaces what the replica hosts, until it restarts; answers the metadata partitions that this amounts to.

        They are those named, and those that hold the events of the user partitions; neither means all. Raises
        InvalidField for one that the log does not have, MetadataLogUnavailable when nothing could be changed.
        """
        for number in (*metadata_partitions, *(partition for _, partition in user_partitions)):
            require_int32("partition", number)
        request = pb.SetAssignmentRequest(
            metadata_partitions=metadata_partitions,
            user_partitions=[
                pb.UserPartition(topic_id=topic_id.raw, partition=partition) for topic_id, partition in user_partitions
            ],
        )
        answer: pb.SetAssignmentResponse = self._call("SetAssignment", request)
        return tuple(answer.metadata_partitions)

    def take_snapshot(self) -> TakenSnapshot:
        """Writes a snapshot of what the replica hosts. Raises NotOffered when it has no place for one."""
        answer: pb.TakeSnapshotResponse = self._call("TakeSnapshot", pb.TakeSnapshotRequest())
        return TakenSnapshot(answer.location, answer.size_bytes)

    def _call(self, method: str, request: Any) -> Any:
        stub = admin_pb2_grpc.AdminServiceStub(self._channels.to(self._target))
        try:
            return getattr(stub, method)(request, timeout=self._timeout_s)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from failure


def _hosted(partition: pb.HostedPartition) -> HostedPartition:
    return HostedPartition(
        metadata_partition=partition.metadata_partition,
        applied_offset=partition.applied_offset,
        ready=partition.ready,
        corrupt_at=partition.corrupt_at if partition.HasField("corrupt_at") else None,
    )
