"""Values to protobuf messages and back, in pairs. Messages that come in are validated; a complaint names the field."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import TypeVar

from tiergate.v1 import metadata_pb2, types_pb2
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField
from tiergate_client.ids import KafkaUuid, LogId, SegmentId, TopicId
from tiergate_client.integers import require_int32, require_int64
from tiergate_client.segment_files import FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionDeleteState,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    SegmentState,
    TopicIdPartition,
)

Id = TypeVar("Id", bound=KafkaUuid)

_STATES_TO_PROTO = {state: types_pb2.SegmentState.Value(f"SEGMENT_STATE_{state.name}") for state in SegmentState}
_STATES_FROM_PROTO: dict[int, SegmentState] = {number: state for state, number in _STATES_TO_PROTO.items()}
_DELETE_STATES_TO_PROTO = {
    state: metadata_pb2.PartitionDeleteState.Value(state.name.replace("DELETE_PARTITION", "PARTITION_DELETE_STATE"))
    for state in PartitionDeleteState
}
_DELETE_STATES_FROM_PROTO: dict[int, PartitionDeleteState] = {
    number: state for state, number in _DELETE_STATES_TO_PROTO.items()
}
_FILES_TO_PROTO = {file: types_pb2.SegmentFile.Value(f"SEGMENT_FILE_{file.name}") for file in SegmentFile}
_FILES_FROM_PROTO: dict[int, SegmentFile] = {number: file for file, number in _FILES_TO_PROTO.items()}

# One that names a single metadata partition; what callers could make large is not kept.
_REMEMBERED_TOKEN_BYTES = 64


class inside:  # noqa: N801 (used like a function, and written as a class because a generator takes 1 µs)
    """Complaints about a field are passed on as complaints about parent.field."""

    __slots__ = ("_parent",)

    def __init__(self, parent: str) -> None:
        self._parent = parent

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, complaint: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(complaint, InvalidField):
            raise complaint.inside(self._parent) from None


def id_from_proto(kind: type[Id], raw: bytes, field: str) -> Id:
    if len(raw) != 16:
        raise InvalidField.of(field, f"an id has 16 bytes, not {len(raw)}")
    return kind(raw)


def partition_to_proto(partition: TopicIdPartition) -> types_pb2.TopicIdPartition:
    return types_pb2.TopicIdPartition(
        topic=partition.topic, topic_id=partition.topic_id.raw, partition=partition.partition
    )


def partition_from_proto(message: types_pb2.TopicIdPartition) -> TopicIdPartition:
    return _partition_of(message.topic_id, message.partition, message.topic)


@lru_cache(maxsize=4096)  # calls are about the same few partitions over and over; checking one takes 2 µs
def _partition_of(topic_id: bytes, partition: int, topic: str) -> TopicIdPartition:
    with inside("partition"):
        return TopicIdPartition(id_from_proto(TopicId, topic_id, "topic_id"), partition, topic)


def _broker_id(
    message: types_pb2.RemoteLogSegmentMetadata
    | metadata_pb2.UpdateSegmentRequest
    | metadata_pb2.SegmentUpdate
    | metadata_pb2.PartitionDelete,
) -> int:
    return message.broker_id if message.HasField("broker_id") else -1


def state_to_proto(state: SegmentState) -> types_pb2.SegmentState.ValueType:
    return _STATES_TO_PROTO[state]


def state_from_proto(number: int) -> SegmentState:
    if number not in _STATES_FROM_PROTO:
        raise InvalidField.of("state", f"{number} is not a segment state")
    return _STATES_FROM_PROTO[number]


def file_to_proto(file: SegmentFile) -> types_pb2.SegmentFile.ValueType:
    return _FILES_TO_PROTO[file]


def file_from_proto(number: int, field: str = "file") -> SegmentFile:
    if number not in _FILES_FROM_PROTO:
        raise InvalidField.of(field, f"{number} is not a segment file")
    return _FILES_FROM_PROTO[number]


def epochs_from_proto(messages: Sequence[types_pb2.SegmentLeaderEpoch]) -> LeaderEpochs:
    with inside("segment_leader_epochs"):
        return LeaderEpochs(tuple((message.leader_epoch, message.start_offset) for message in messages))


def metadata_to_proto(metadata: RemoteLogSegmentMetadata) -> types_pb2.RemoteLogSegmentMetadata:
    message = types_pb2.RemoteLogSegmentMetadata()
    write_metadata(metadata, message)
    return message


def write_metadata(metadata: RemoteLogSegmentMetadata, message: types_pb2.RemoteLogSegmentMetadata) -> None:
    """Into an empty message where it is: to build one and put it into another copies it, which takes twice as long."""
    partition = message.partition
    partition.topic = metadata.partition.topic
    partition.topic_id = metadata.partition.topic_id.raw
    partition.partition = metadata.partition.partition
    message.segment_id = metadata.segment_id.raw
    message.start_offset = metadata.start_offset
    message.end_offset = metadata.end_offset
    message.max_timestamp_ms = metadata.max_timestamp_ms
    message.broker_id = metadata.broker_id
    message.event_timestamp_ms = metadata.event_timestamp_ms
    message.segment_size_bytes = metadata.segment_size_bytes
    for epoch, start_offset in metadata.segment_leader_epochs.entries:
        message.segment_leader_epochs.add(leader_epoch=epoch, start_offset=start_offset)
    if metadata.custom_metadata is not None:
        message.custom_metadata = metadata.custom_metadata
    message.state = _STATES_TO_PROTO[metadata.state]
    message.txn_index_empty = metadata.txn_index_empty


def metadata_from_proto(message: types_pb2.RemoteLogSegmentMetadata, field: str) -> RemoteLogSegmentMetadata:
    with inside(field):
        require_int32("segment_size_bytes", message.segment_size_bytes, minimum=0)
        return RemoteLogSegmentMetadata(
            partition=partition_from_proto(message.partition),
            segment_id=id_from_proto(SegmentId, message.segment_id, "segment_id"),
            start_offset=message.start_offset,
            end_offset=message.end_offset,
            max_timestamp_ms=message.max_timestamp_ms if message.HasField("max_timestamp_ms") else -1,
            broker_id=_broker_id(message),
            event_timestamp_ms=message.event_timestamp_ms,
            segment_size_bytes=message.segment_size_bytes,
            segment_leader_epochs=epochs_from_proto(message.segment_leader_epochs),
            custom_metadata=message.custom_metadata if message.HasField("custom_metadata") else None,
            state=state_from_proto(message.state),
            txn_index_empty=message.txn_index_empty,
        )


def update_to_proto(
    update: RemoteLogSegmentMetadataUpdate, token: types_pb2.ConsistencyToken | None
) -> metadata_pb2.UpdateSegmentRequest:
    return metadata_pb2.UpdateSegmentRequest(
        token=token,
        partition=partition_to_proto(update.partition),
        segment_id=update.segment_id.raw,
        event_timestamp_ms=update.event_timestamp_ms,
        custom_metadata=update.custom_metadata,
        state=state_to_proto(update.state),
        broker_id=update.broker_id,
    )


def update_from_proto(message: metadata_pb2.UpdateSegmentRequest) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        partition=partition_from_proto(message.partition),
        segment_id=id_from_proto(SegmentId, message.segment_id, "segment_id"),
        state=state_from_proto(message.state),
        custom_metadata=message.custom_metadata if message.HasField("custom_metadata") else None,
        event_timestamp_ms=message.event_timestamp_ms,
        broker_id=_broker_id(message),
    )


def watched_update_to_proto(update: RemoteLogSegmentMetadataUpdate) -> metadata_pb2.SegmentUpdate:
    return metadata_pb2.SegmentUpdate(
        partition=partition_to_proto(update.partition),
        segment_id=update.segment_id.raw,
        event_timestamp_ms=update.event_timestamp_ms,
        custom_metadata=update.custom_metadata,
        state=state_to_proto(update.state),
        broker_id=update.broker_id,
    )


def watched_update_from_proto(message: metadata_pb2.SegmentUpdate) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        partition=partition_from_proto(message.partition),
        segment_id=id_from_proto(SegmentId, message.segment_id, "segment_id"),
        state=state_from_proto(message.state),
        custom_metadata=message.custom_metadata if message.HasField("custom_metadata") else None,
        event_timestamp_ms=message.event_timestamp_ms,
        broker_id=_broker_id(message),
    )


def partition_delete_to_proto(delete: RemotePartitionDeleteMetadata) -> metadata_pb2.PartitionDelete:
    return metadata_pb2.PartitionDelete(
        partition=partition_to_proto(delete.partition),
        state=_DELETE_STATES_TO_PROTO[delete.state],
        event_timestamp_ms=delete.event_timestamp_ms,
        broker_id=delete.broker_id,
    )


def partition_delete_from_proto(message: metadata_pb2.PartitionDelete) -> RemotePartitionDeleteMetadata:
    with inside("partition_delete"):
        partition = partition_from_proto(message.partition)
        state = _DELETE_STATES_FROM_PROTO.get(message.state)
        if state is None:
            raise InvalidField.of("state", f"{message.state} is not a state of a partition's deletion")
        return RemotePartitionDeleteMetadata(
            partition=partition,
            state=state,
            event_timestamp_ms=message.event_timestamp_ms,
            broker_id=_broker_id(message),
        )


def token_to_proto(token: ConsistencyToken) -> types_pb2.ConsistencyToken:
    """Not to be changed: answers about one metadata partition share the message until an event is applied."""
    if len(token.applied_offsets) == 1:
        return _token_message(token.log_id.raw, *token.applied_offsets.items())
    return types_pb2.ConsistencyToken(log_id=token.log_id.raw, applied_offsets=token.applied_offsets)


@lru_cache(maxsize=256)  # making one takes 3 µs, a seventh of what a lookup takes
def _token_message(log_id: bytes, applied_offset: tuple[int, int]) -> types_pb2.ConsistencyToken:
    return types_pb2.ConsistencyToken(log_id=log_id, applied_offsets=dict([applied_offset]))


def token_from_proto(message: types_pb2.ConsistencyToken) -> ConsistencyToken:
    serialised = message.SerializeToString()
    return _token_of(serialised) if len(serialised) <= _REMEMBERED_TOKEN_BYTES else _token_of.__wrapped__(serialised)


@lru_cache(maxsize=1024)  # callers send the same token until something changes; reading one takes 4 µs
def _token_of(serialised: bytes) -> ConsistencyToken:
    message = types_pb2.ConsistencyToken.FromString(serialised)
    with inside("token"):
        return ConsistencyToken(id_from_proto(LogId, message.log_id, "log_id"), dict(message.applied_offsets))


def question_to_proto(question: SegmentQuestion) -> metadata_pb2.SegmentQuestion:
    return metadata_pb2.SegmentQuestion(
        partition=partition_to_proto(question.partition), leader_epoch=question.leader_epoch, offset=question.offset
    )


def question_from_proto(message: metadata_pb2.SegmentQuestion) -> SegmentQuestion:
    offset = message.offset
    with inside("questions"):
        require_int64("offset", offset, minimum=0)
        return SegmentQuestion(partition_from_proto(message.partition), message.leader_epoch, offset)


def change_to_proto(change: MetadataChange) -> metadata_pb2.WatchSegmentsResponse:
    message = metadata_pb2.WatchSegmentsResponse(token=token_to_proto(change.token))
    if isinstance(change.event, RemoteLogSegmentMetadata):
        write_metadata(change.event, message.added)
    elif isinstance(change.event, RemoteLogSegmentMetadataUpdate):
        message.updated.CopyFrom(watched_update_to_proto(change.event))
    elif change.event is not None:
        message.partition_delete.CopyFrom(partition_delete_to_proto(change.event))
    return message


def change_from_proto(message: metadata_pb2.WatchSegmentsResponse) -> MetadataChange:
    token = token_from_proto(message.token)
    kind = message.WhichOneof("change")
    if kind == "added":
        return MetadataChange(metadata_from_proto(message.added, "added"), token)
    if kind == "updated":
        return MetadataChange(watched_update_from_proto(message.updated), token)
    if kind == "partition_delete":
        return MetadataChange(partition_delete_from_proto(message.partition_delete), token)
    return MetadataChange(None, token)


def summary_to_proto(summary: PartitionSummary) -> metadata_pb2.PartitionSummary:
    return metadata_pb2.PartitionSummary(
        partition=partition_to_proto(summary.partition),
        metadata_partition=summary.metadata_partition,
        segment_count=summary.segment_count,
        finished_segment_count=summary.finished_segment_count,
        finished_size_bytes=summary.finished_size_bytes,
        start_offset=summary.start_offset,
        end_offset=summary.end_offset,
        ready=summary.ready,
    )


def summary_from_proto(message: metadata_pb2.PartitionSummary) -> PartitionSummary:
    return PartitionSummary(
        partition=partition_from_proto(message.partition),
        metadata_partition=message.metadata_partition,
        segment_count=message.segment_count,
        finished_segment_count=message.finished_segment_count,
        finished_size_bytes=message.finished_size_bytes,
        start_offset=message.start_offset if message.HasField("start_offset") else None,
        end_offset=message.end_offset if message.HasField("end_offset") else None,
        ready=message.ready,
    )


def manifest_to_proto(manifest: SegmentManifest) -> types_pb2.SegmentManifest:
    files = [
        types_pb2.SegmentFileChecksum(file=file_to_proto(file), size_bytes=checksum.size_bytes, crc32c=checksum.crc32c)
        for file, checksum in manifest.files.items()
    ]
    return types_pb2.SegmentManifest(
        metadata=metadata_to_proto(manifest.metadata), files=files, log_block_crc32c=manifest.log_block_crc32c
    )


def manifest_from_proto(message: types_pb2.SegmentManifest, field: str) -> SegmentManifest:
    with inside(field):
        metadata = metadata_from_proto(message.metadata, "metadata")
        files: dict[SegmentFile, FileChecksum] = {}
        with inside("files"):
            for entry in message.files:
                file = file_from_proto(entry.file)
                if file in files:
                    raise InvalidField.of("file", f"{file.value} is named twice")
                files[file] = FileChecksum(entry.size_bytes, entry.crc32c)
        return SegmentManifest(metadata, files, tuple(message.log_block_crc32c))
