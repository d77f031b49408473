"""The fields that describe a segment, alike in Kafka's segment event and in its snapshot entry.

    fields = start-offset[i64] end-offset[i64] broker-id[i32] max-timestamp-ms[i64] event-timestamp-ms[i64]
             uvarint(epoch-count + 1) { leader-epoch[i32] start-offset[i64] tagged-fields }
             segment-size-bytes[i32] custom-metadata[compact-bytes] state[i8] tagged-fields

All integers are big-endian; `flexible_message` has the grammar of the rest. Which segment it is, and the frame around
the fields, are not written here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_client.varints import encode_varint
from tiergate_server.metadata.event_errors import CorruptEvent
from tiergate_server.metadata.flexible_message import (
    read_compact_bytes,
    read_tagged_fields,
    read_uvarint,
    skip_tagged_fields,
    write_compact_bytes,
)

_TXN_INDEX_EMPTY_TAG = 0
_TXN_INDEX_EMPTY = bytes.fromhex("01000101")
_NO_TAGGED_FIELDS = b"\0"

_HEAD = struct.Struct(">qqiqq")
_EPOCH = struct.Struct(">iq")
_SIZE = struct.Struct(">i")
_SEGMENT_STATES = {state.value: state for state in SegmentState}


def encode_segment_fields(metadata: RemoteLogSegmentMetadata, *, txn_index_empty: bool) -> bytes:
    epochs = metadata.segment_leader_epochs.entries
    head = _HEAD.pack(
        metadata.start_offset,
        metadata.end_offset,
        metadata.broker_id,
        metadata.max_timestamp_ms,
        metadata.event_timestamp_ms,
    )
    parts = [head, encode_varint(len(epochs) + 1)]
    parts += [_EPOCH.pack(epoch, start) + _NO_TAGGED_FIELDS for epoch, start in epochs]
    parts += [
        _SIZE.pack(metadata.segment_size_bytes),
        write_compact_bytes(metadata.custom_metadata),
        bytes((metadata.state,)),
        _TXN_INDEX_EMPTY if txn_index_empty else _NO_TAGGED_FIELDS,
    ]
    return b"".join(parts)


def decode_segment_fields(
    data: bytes, position: int, *, partition: TopicIdPartition, segment_id: SegmentId
) -> tuple[RemoteLogSegmentMetadata, int]:
    start, end, broker_id, max_timestamp_ms, event_timestamp_ms = _HEAD.unpack_from(data, position)
    epochs, position = _read_epochs(data, position + _HEAD.size)
    (size,) = _SIZE.unpack_from(data, position)
    custom_metadata, position = read_compact_bytes(data, position + _SIZE.size)
    state = read_segment_state(data, position)
    tagged_fields, position = read_tagged_fields(data, position + 1)
    metadata = RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=segment_id,
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=epochs,
        segment_size_bytes=size,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        custom_metadata=custom_metadata,
        state=state,
        txn_index_empty=bool(tagged_fields) and _is_txn_index_empty(tagged_fields),
    )
    return metadata, position


def read_segment_state(data: bytes, position: int) -> SegmentState:
    state = _SEGMENT_STATES.get(data[position])
    if state is None:
        raise CorruptEvent(f"{data[position]} is not a segment state")
    return state


def _read_epochs(data: bytes, position: int) -> tuple[LeaderEpochs, int]:
    length, position = read_uvarint(data, position)
    if length == 0:
        raise CorruptEvent("a segment has leader epochs, but they are null")
    if length == 2 and data[position + _EPOCH.size] == 0:  # nearly always: one epoch, without tagged fields
        return LeaderEpochs((_EPOCH.unpack_from(data, position),)), position + _EPOCH.size + 1
    starts: dict[int, int] = {}  # like Kafka: in any order, and the last one of an epoch counts
    for _ in range(length - 1):
        epoch, start = _EPOCH.unpack_from(data, position)
        starts[epoch] = start
        position = skip_tagged_fields(data, position + _EPOCH.size)
    return LeaderEpochs.of(starts), position


def _is_txn_index_empty(tagged_fields: Mapping[int, bytes]) -> bool:
    payload = tagged_fields.get(_TXN_INDEX_EMPTY_TAG, b"\0")
    if len(payload) != 1:
        raise CorruptEvent(f"the tagged field TxnIndexEmpty has one byte, not {len(payload)}")
    return payload != b"\0"
