"""AdminService on the metadata plane: what an operator changes on this replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiergate.v1 import admin_pb2 as pb
from tiergate.v1 import admin_pb2_grpc
from tiergate_client.conversions import id_from_proto, inside
from tiergate_client.errors import InvalidField, NotOffered
from tiergate_client.ids import TopicId
from tiergate_client.integers import require_int32
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.manager_slot import ManagerSlot
from tiergate_server.metadata.partitioner import metadata_partition_of
from tiergate_server.metadata.replica_life import ReplicaLife

if TYPE_CHECKING:
    import grpc.aio

    Context = grpc.aio.ServicerContext[Any, Any]


class AdminService(admin_pb2_grpc.AdminServiceServicer):
    def __init__(self, life: ReplicaLife, slot: ManagerSlot) -> None:
        self._life = life
        self._slot = slot

    async def GetAssignment(self, request: pb.GetAssignmentRequest, context: Context) -> pb.GetAssignmentResponse:
        follower = self._follower()
        hosted = [
            pb.HostedPartition(
                metadata_partition=number,
                applied_offset=partition.progress.applied,
                ready=partition.progress.is_ready,
                corrupt_at=partition.progress.corrupt_at,
            )
            for number, partition in sorted(follower.hosted.items())
        ]
        return pb.GetAssignmentResponse(partition_count=follower.log.partition_count, hosted=hosted)

    async def SetAssignment(self, request: pb.SetAssignmentRequest, context: Context) -> pb.SetAssignmentResponse:
        follower = self._follower()
        count = follower.log.partition_count
        wanted = set(request.metadata_partitions)
        for number in wanted:
            if not 0 <= number < count:
                raise InvalidField.of("metadata_partitions", f"{number} is not one of the log's {count} partitions")
        with inside("user_partitions"):
            for partition in request.user_partitions:
                topic_id = id_from_proto(TopicId, partition.topic_id, "topic_id")
                require_int32("partition", partition.partition, minimum=0)
                wanted.add(metadata_partition_of(topic_id, partition.partition, partition_count=count))
        await follower.assign(wanted or range(count))
        return pb.SetAssignmentResponse(metadata_partitions=sorted(follower.hosted))

    async def TakeSnapshot(self, request: pb.TakeSnapshotRequest, context: Context) -> pb.TakeSnapshotResponse:
        self._follower()
        if self._life.snapshotter is None:
            raise NotOffered("no place for snapshots is configured; set metadata.snapshot.directory")
        saved = await self._life.snapshotter.take()
        return pb.TakeSnapshotResponse(location=saved.location, size_bytes=saved.size_bytes)

    def _follower(self) -> LogFollower:
        """The follower of this moment. Raises MetadataNotReady."""
        return self._slot.get().replica.follower
