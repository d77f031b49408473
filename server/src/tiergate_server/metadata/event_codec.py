"""Events as the bytes that Kafka's own brokers write to `__remote_log_metadata`, and back.

    frame            = 01 key 00 message                       frame version, api key, api version
    segment          = segment-id fields                       key 00; `segment_fields` has the grammar of fields
    segment-update   = segment-id broker-id[i32] event-timestamp-ms[i64]
                       custom-metadata[compact-bytes] state[i8] tagged-fields                        key 01
    partition-delete = partition broker-id[i32] event-timestamp-ms[i64] state[i8] tagged-fields      key 02
    segment-id       = partition id[16] tagged-fields
    partition        = topic[compact-bytes, UTF-8] topic-id[16] partition[i32] tagged-fields

All integers are big-endian; `flexible_message` has the grammar of the rest. Unknown tagged fields are skipped. For
example the mark to delete partition 3 of `foo`, by broker 1 at 1700000003000:

    01 02 00                              frame 1, key 2, version 0
    04 666f6f                             "foo" (length + 1 = 4)
    00112233445566778899aabbccddeeff      topic id
    00000003 00                           partition 3, no tagged fields
    00000001 0000018bcfe573b8             broker, event time
    00 00                                 DELETE_PARTITION_MARKED, no tagged fields

What an event does to the state is not known here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tiergate_server.metadata.event_errors import CorruptEvent, UnknownEvent
from tiergate_server.metadata.flexible_message import read_compact_bytes, skip_tagged_fields, write_compact_bytes
from tiergate_server.metadata.frame import DAMAGE, corruption, read_header, require_end
from tiergate_server.metadata.segment_fields import decode_segment_fields, encode_segment_fields, read_segment_state

__all__ = ["CorruptEvent", "MetadataEvent", "UnknownEvent", "decode_event", "encode_event"]

MetadataEvent: TypeAlias = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata

_SEGMENT_HEADER = bytes.fromhex("010000")
_UPDATE_HEADER = bytes.fromhex("010100")
_PARTITION_DELETE_HEADER = bytes.fromhex("010200")
_HEADER_BYTES = 3
_NO_TAGGED_FIELDS = b"\0"

_TOPIC_ID_AND_PARTITION = struct.Struct(">16si")
_ID = struct.Struct(">16s")
_BROKER_AND_TIME = struct.Struct(">iq")
_PARTITION_DELETE_STATES = {state.value: state for state in PartitionDeleteState}


def encode_event(event: MetadataEvent) -> bytes:
    if isinstance(event, RemoteLogSegmentMetadata):
        fields = encode_segment_fields(event, txn_index_empty=event.txn_index_empty)
        return _SEGMENT_HEADER + _encode_segment_id(event.partition, event.segment_id) + fields
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return b"".join(
            (
                _UPDATE_HEADER,
                _encode_segment_id(event.partition, event.segment_id),
                _BROKER_AND_TIME.pack(event.broker_id, event.event_timestamp_ms),
                write_compact_bytes(event.custom_metadata),
                bytes((event.state,)),
                _NO_TAGGED_FIELDS,
            )
        )
    return b"".join(
        (
            _PARTITION_DELETE_HEADER,
            _encode_partition(event.partition),
            _BROKER_AND_TIME.pack(event.broker_id, event.event_timestamp_ms),
            bytes((event.state,)),
            _NO_TAGGED_FIELDS,
        )
    )


def decode_event(data: bytes) -> MetadataEvent:
    """The event that a record's value holds. Raises UnknownEvent for one to skip, CorruptEvent for a damaged one."""
    if not data:
        raise UnknownEvent("the record is empty")
    try:
        decode, position = _DECODERS.get(data[:_HEADER_BYTES]), _HEADER_BYTES
        if decode is None:
            decode, position = _decoder_by_numbers(data)
        event, position = decode(data, position)
        require_end(data, position)
    except DAMAGE as damage:
        raise corruption(damage) from None
    return event


def _encode_partition(partition: TopicIdPartition) -> bytes:
    ids = _TOPIC_ID_AND_PARTITION.pack(partition.topic_id.raw, partition.partition)
    return write_compact_bytes(partition.topic.encode()) + ids + _NO_TAGGED_FIELDS


def _encode_segment_id(partition: TopicIdPartition, segment_id: SegmentId) -> bytes:
    return _encode_partition(partition) + segment_id.raw + _NO_TAGGED_FIELDS


def _decode_segment(data: bytes, position: int) -> tuple[RemoteLogSegmentMetadata, int]:
    partition, segment_id, position = _read_segment_id(data, position)
    return decode_segment_fields(data, position, partition=partition, segment_id=segment_id)


def _decode_update(data: bytes, position: int) -> tuple[RemoteLogSegmentMetadataUpdate, int]:
    partition, segment_id, position = _read_segment_id(data, position)
    broker_id, event_timestamp_ms = _BROKER_AND_TIME.unpack_from(data, position)
    custom_metadata, position = read_compact_bytes(data, position + _BROKER_AND_TIME.size)
    update = RemoteLogSegmentMetadataUpdate(
        partition=partition,
        segment_id=segment_id,
        state=read_segment_state(data, position),
        custom_metadata=custom_metadata,
        event_timestamp_ms=event_timestamp_ms,
        broker_id=broker_id,
    )
    return update, skip_tagged_fields(data, position + 1)


def _decode_partition_delete(data: bytes, position: int) -> tuple[RemotePartitionDeleteMetadata, int]:
    partition, position = _read_partition(data, position)
    broker_id, event_timestamp_ms = _BROKER_AND_TIME.unpack_from(data, position)
    position += _BROKER_AND_TIME.size
    state = _PARTITION_DELETE_STATES.get(data[position])
    if state is None:
        raise CorruptEvent(f"{data[position]} is not a state of a partition's deletion")
    delete = RemotePartitionDeleteMetadata(
        partition=partition, state=state, event_timestamp_ms=event_timestamp_ms, broker_id=broker_id
    )
    return delete, skip_tagged_fields(data, position + 1)


_Decoder: TypeAlias = Callable[[bytes, int], tuple[MetadataEvent, int]]
_DECODERS: Mapping[bytes, _Decoder] = {
    _SEGMENT_HEADER: _decode_segment,
    _UPDATE_HEADER: _decode_update,
    _PARTITION_DELETE_HEADER: _decode_partition_delete,
}


def _decoder_by_numbers(data: bytes) -> tuple[_Decoder, int]:
    """For a header that is spelled in more bytes than it needs, which varints allow, or that is not known."""
    api_key, api_version, position = read_header(data)
    is_short = api_key < 0x80 and api_version < 0x80
    decode = _DECODERS.get(bytes((1, api_key, api_version))) if is_short else None
    if decode is None:
        raise UnknownEvent(f"an event of api key {api_key}, version {api_version} is not known")
    return decode, position


def _read_segment_id(data: bytes, position: int) -> tuple[TopicIdPartition, SegmentId, int]:
    partition, position = _read_partition(data, position)
    (raw,) = _ID.unpack_from(data, position)
    return partition, SegmentId(raw), skip_tagged_fields(data, position + _ID.size)


def _read_partition(data: bytes, position: int) -> tuple[TopicIdPartition, int]:
    topic, position = read_compact_bytes(data, position)
    if topic is None:
        raise CorruptEvent("an event has a topic name, but it is null")
    topic_id, number = _TOPIC_ID_AND_PARTITION.unpack_from(data, position)
    position = skip_tagged_fields(data, position + _TOPIC_ID_AND_PARTITION.size)
    return _partition_of(topic, topic_id, number), position


@lru_cache(maxsize=4096)  # a log says the same few partitions over and over; building and checking one takes 2 µs
def _partition_of(topic: bytes, topic_id: bytes, number: int) -> TopicIdPartition:
    return TopicIdPartition(topic_id=TopicId(topic_id), partition=number, topic=topic.decode())
