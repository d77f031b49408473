"""One segment as one `bytes`, a tenth of what the values take; the values are built when they are asked for.

    packed = start-offset[i64] end-offset[i64] max-timestamp-ms[i64] event-timestamp-ms[i64]
             segment-size-bytes[i32] broker-id[i32] epoch-count[u32] state[u8] flags[u8]
             { leader-epoch[i32] start-offset[i64] } custom-metadata

All integers are big-endian. Flag 1: the transaction index is empty; flag 2: there is custom metadata. Snapshots hold
this form as it is: a change of it needs a new version in the snapshot codec. Partition and segment id are kept
elsewhere.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.values import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.state_content import Contradiction

_HEAD = struct.Struct(">qqqqiiIBB")
_EPOCH = struct.Struct(">iq")
_OFFSETS = struct.Struct(">qq")
_SIZE = struct.Struct(">i")
_SIZE_POSITION = 32
_STATE_POSITION = 44
_FLAGS_POSITION = 45

_TXN_INDEX_EMPTY = 1
_HAS_CUSTOM_METADATA = 2
_FLAGS = _TXN_INDEX_EMPTY | _HAS_CUSTOM_METADATA

_STATES = tuple(SegmentState)
_LAST_STATE = SegmentState.DELETE_STARTED.value  # a segment in DELETE_FINISHED is not known any more


Fields: TypeAlias = tuple[int, int, int, int, int, int, tuple[tuple[int, int], ...], bytes | None, SegmentState, bool]
"""Start, end, max timestamp, event timestamp, size, broker, (epoch, start offset) pairs, custom metadata, state, and
whether the transaction index is empty."""


class PackedSegment(NamedTuple):
    """A segment as a cache keeps it, and as it stays when the cache has gone on.

    A tuple, since a call may find a thousand: a frozen dataclass takes twice as long to make.
    """

    partition: TopicIdPartition
    raw_id: bytes
    packed: bytes

    def value(self) -> RemoteLogSegmentMetadata:
        return unpack(self.packed, partition=self.partition, raw_id=self.raw_id)


def pack(metadata: RemoteLogSegmentMetadata) -> bytes:
    epochs = metadata.segment_leader_epochs.entries
    custom_metadata = metadata.custom_metadata
    head = _HEAD.pack(
        metadata.start_offset,
        metadata.end_offset,
        metadata.max_timestamp_ms,
        metadata.event_timestamp_ms,
        metadata.segment_size_bytes,
        metadata.broker_id,
        len(epochs),
        metadata.state,
        _flags(txn_index_empty=metadata.txn_index_empty, custom_metadata=custom_metadata),
    )
    return b"".join((head, *[_EPOCH.pack(*entry) for entry in epochs], custom_metadata or b""))


def unpack(packed: bytes, *, partition: TopicIdPartition, raw_id: bytes) -> RemoteLogSegmentMetadata:
    (
        start,
        end,
        max_timestamp_ms,
        event_timestamp_ms,
        size,
        broker_id,
        epochs,
        custom_metadata,
        state,
        txn_index_empty,
    ) = fields(packed)
    return RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=SegmentId(raw_id),
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=LeaderEpochs(epochs),
        segment_size_bytes=size,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        custom_metadata=custom_metadata,
        state=state,
        txn_index_empty=txn_index_empty,
    )


def fields(packed: bytes) -> Fields:
    """All that is packed. Building the value takes five times as long, for checks that were made before packing."""
    start, end, max_timestamp_ms, event_timestamp_ms, size, broker_id, epoch_count, state, flags = _HEAD.unpack_from(
        packed
    )
    return (
        start,
        end,
        max_timestamp_ms,
        event_timestamp_ms,
        size,
        broker_id,
        _epochs(packed, epoch_count),
        packed[_epochs_end(epoch_count) :] if flags & _HAS_CUSTOM_METADATA else None,
        _STATES[state],
        bool(flags & _TXN_INDEX_EMPTY),
    )


def updated(packed: bytes, update: RemoteLogSegmentMetadataUpdate) -> bytes:
    """The segment after the update, like RemoteLogSegmentMetadata.updated_by."""
    start, end, max_timestamp_ms, _, size, _, epoch_count, _, flags = _HEAD.unpack_from(packed)
    head = _HEAD.pack(
        start,
        end,
        max_timestamp_ms,
        update.event_timestamp_ms,
        size,
        update.broker_id,
        epoch_count,
        update.state,
        _flags(txn_index_empty=bool(flags & _TXN_INDEX_EMPTY), custom_metadata=update.custom_metadata),
    )
    return b"".join((head, packed[_HEAD.size : _epochs_end(epoch_count)], update.custom_metadata or b""))


def checked(packed: bytes) -> tuple[int, int, int, int, list[tuple[int, int]]]:
    """Start, end, size, state and (epoch, start offset) pairs of bytes that may be anything. Raises Contradiction."""
    size = len(packed)
    if size < _HEAD.size:
        raise Contradiction(f"a segment has {size} bytes")
    start, end, _, _, size_bytes, _, epoch_count, state, flags = _HEAD.unpack_from(packed)
    epochs_end = _epochs_end(epoch_count)
    fits = epochs_end <= size if flags & _HAS_CUSTOM_METADATA else epochs_end == size
    if not (fits and epoch_count and 0 <= start <= end and state <= _LAST_STATE and flags <= _FLAGS):
        raise Contradiction(f"the segment of offsets {start} to {end} is not well-formed")
    epochs: list[tuple[int, int]] = list(_EPOCH.iter_unpack(packed[_HEAD.size : epochs_end]))
    if epoch_count > 1 and any(later <= earlier for (earlier, _), (later, _) in pairwise(epochs)):
        raise Contradiction(f"the leader epochs of the segment of offsets {start} to {end} do not ascend")
    return start, end, size_bytes, state, epochs


def state_of(packed: bytes) -> SegmentState:
    return _STATES[packed[_STATE_POSITION]]


def offsets_of(packed: bytes) -> tuple[int, int]:
    """Start and end offset."""
    start, end = _OFFSETS.unpack_from(packed)
    return start, end


def size_of(packed: bytes) -> int:
    (size,) = _SIZE.unpack_from(packed, _SIZE_POSITION)
    return int(size)


def is_txn_index_empty(packed: bytes) -> bool:
    return bool(packed[_FLAGS_POSITION] & _TXN_INDEX_EMPTY)


def epoch_ranges(packed: bytes) -> list[tuple[int, int, int]]:
    """(epoch, first offset, last offset) of each epoch, like LeaderEpochs.ranges."""
    _, end, _, _, _, _, epoch_count, _, _ = _HEAD.unpack_from(packed)
    entries = _epochs(packed, epoch_count)
    if epoch_count == 1:
        ((epoch, start),) = entries
        return [(epoch, start, end)]
    last_offsets = [start - 1 for _, start in entries[1:]] + [end]
    return [(epoch, start, last) for (epoch, start), last in zip(entries, last_offsets, strict=True)]


def _epochs(packed: bytes, epoch_count: int) -> tuple[tuple[int, int], ...]:
    if epoch_count == 1:  # nearly always, and three times as fast
        epoch, start = _EPOCH.unpack_from(packed, _HEAD.size)
        return ((epoch, start),)
    return tuple(_EPOCH.iter_unpack(packed[_HEAD.size : _epochs_end(epoch_count)]))


def _epochs_end(epoch_count: int) -> int:
    return _HEAD.size + epoch_count * _EPOCH.size


def _flags(*, txn_index_empty: bool, custom_metadata: bytes | None) -> int:
    return txn_index_empty * _TXN_INDEX_EMPTY | (custom_metadata is not None) * _HAS_CUSTOM_METADATA
