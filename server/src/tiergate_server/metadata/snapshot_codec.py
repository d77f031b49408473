"""The file of a snapshot, as bytes and back.

    file               = "TGMDSNAP" version[u16] log-id[16] partition-count[u32] created-at-ms[i64]
                         { 01 metadata-partition } 00 crc32c[u32]
    metadata-partition = number[u32] applied[i64] leader-epoch[i32] topics names deleted deletions user-partitions
    topics             = count[u32] { topic-id[16] name }          the name that each topic was given first
    names              = count[u32] { name }                       every name ever mentioned, in order
    deleted            = count[u32] { topic-id[16] partition[i32] }                 deletions that are finished
    deletions          = count[u32] { length[u32] event }          those under way; `event_codec` has the grammar
    user-partitions    = count[u32] { topic-id[16] partition[i32] name segments epochs former-epochs }
    segments           = count[u32] { id[16] } { length[u32] } { packed }           ascending by (start offset, id)
    epochs             = count[u32] { epoch[i32] has-highest[u8] highest[i64] references }
    references         = count[u32] { offset[i64] } { position among the segments, from 0[u32] }
    former-epochs      = count[u32] { position among the segments[u32] epoch[i32] }  of an earlier Add of a segment
    name               = length[u8] ASCII

All integers are big-endian; each metadata partition comes once, in any order. `packed_segment` has the grammar of
packed: a change there is a new version here. The checksum covers all bytes before it. What is in an epoch besides its
references is not written, since the segments name their epochs, but for former ones. A log of 50 partitions, one of
them captured, with one segment:

    54474d44534e4150 0001                                       magic, version 1
    4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c4c 00000032 0000018bcfe56800  log id, 50 partitions, time
    01 00000003 0000000000000029 00000006                       metadata partition 3 up to offset 41, epoch 6 there
    00000001 54545454545454545454545454545454 05 746f706963     a topic: "topic"
    00000001 05 746f706963                                      a name: "topic"
    00000000 00000000                                           no deletion is finished, none is under way
    00000001 54545454545454545454545454545454 00000000 05 746f706963     partition 0 of "topic"
    00000001 00000000000000000000000000000001 00000040          a segment of 64 bytes, packed:
      0000000000000064 00000000000000c7 ffffffffffffffff 0000000000000007 000003e9 ffffffff
      00000001 01 02 00000005 0000000000000064 637573746f6d     offsets 100 to 199, finished, "custom"
    00000001 00000005 01 00000000000000c7                       leader epoch 5, whose highest offset is 199
    00000001 0000000000000064 00000000                          its reference: offset 100 -> segment 0
    00000000                                                    no segment was added again with other epochs
    00 8e61d519                                                 that was all; checksum

Where files are kept, and which one wins, is not known here.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from crc32c import crc32c

from tiergate_client.errors import InvalidField
from tiergate_client.ids import LogId, TopicId
from tiergate_client.values import RemotePartitionDeleteMetadata, TopicIdPartition
from tiergate_server.metadata.event_codec import CorruptEvent, UnknownEvent, decode_event, encode_event
from tiergate_server.metadata.snapshot import MetadataSnapshot, PartitionSnapshot, SnapshotRefused
from tiergate_server.metadata.snapshot_bytes import SnapshotBytes
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.state_content import (
    Contradiction,
    EpochContent,
    PartitionContent,
    PartitionKey,
    StateContent,
)

VERSION = 1

_MAGIC = b"TGMDSNAP"
_MAGIC_AND_VERSION = struct.Struct(">8sH")
_HEADER = struct.Struct(">16sIq")
_SECTION = struct.Struct(">Iqi")
_TOPIC_PARTITION = struct.Struct(">16si")
_EPOCH = struct.Struct(">iBq")
_FORMER_EPOCH = struct.Struct(">Ii")
_U8 = struct.Struct(">B")
_U32 = struct.Struct(">I")

_ID_BYTES = 16
_SECTION_FOLLOWS = b"\1"
_NO_MORE_SECTIONS = b"\0"

_CHUNK_BYTES = 1024 * 1024
_BATCH = 8192  # numbers or segments that become bytes at a time

_INCONSISTENT = (Contradiction, InvalidField, CorruptEvent, UnknownEvent)


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """What is known of a snapshot before its first metadata partition is captured."""

    log_id: LogId
    partition_count: int
    created_at_ms: int


def encode(header: SnapshotHeader, partitions: Iterable[PartitionSnapshot]) -> Iterator[bytes]:
    """The file, in chunks of about 1 MiB; each partition is asked for when the one before is written.

    Raises ValueError for a partition that the log does not have, or that comes twice.
    """
    checksum = 0
    for chunk in _joined(_file(header, partitions)):
        checksum = crc32c(chunk, checksum)
        yield chunk
    yield _U32.pack(checksum)


def decode(data: bytes | bytearray | memoryview) -> MetadataSnapshot:
    """The snapshot that a whole file holds, every state in it checked and built. Raises SnapshotRefused."""
    view = memoryview(data)
    _require_readable(view)
    content = SnapshotBytes(view[_MAGIC_AND_VERSION.size : -_U32.size])
    raw_log_id, partition_count, created_at_ms = content.unpack(_HEADER)
    partitions: dict[int, PartitionSnapshot] = {}
    while content.take(1) == _SECTION_FOLLOWS:
        partition = _read_section(content)
        if partition.number in partitions or partition.number >= partition_count:
            raise SnapshotRefused(f"the snapshot holds metadata partition {partition.number} twice, or of no such log")
        partitions[partition.number] = partition
    content.require_end()
    return MetadataSnapshot(LogId(raw_log_id), partition_count, created_at_ms, partitions)


def _require_readable(view: memoryview) -> None:
    if len(view) < _MAGIC_AND_VERSION.size + _U32.size or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise SnapshotRefused("this is not a metadata snapshot, or only the beginning of one")
    _, version = _MAGIC_AND_VERSION.unpack_from(view)
    if version != VERSION:
        raise SnapshotRefused(f"the snapshot has format {version}, but this release reads format {VERSION} only")
    (checksum,) = _U32.unpack(view[-_U32.size :])
    if crc32c(view[: -_U32.size]) != checksum:
        raise SnapshotRefused("the snapshot is damaged: its checksum does not fit its content")


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    if waiting:
        yield b"".join(waiting)


def _file(header: SnapshotHeader, partitions: Iterable[PartitionSnapshot]) -> Iterator[bytes]:
    yield _MAGIC_AND_VERSION.pack(_MAGIC, VERSION)
    yield _HEADER.pack(header.log_id.raw, header.partition_count, header.created_at_ms)
    written: set[int] = set()
    for partition in partitions:
        if partition.number in written or not 0 <= partition.number < header.partition_count:
            raise ValueError(f"metadata partition {partition.number} comes twice, or the log does not have it")
        written.add(partition.number)
        yield _SECTION_FOLLOWS
        yield _SECTION.pack(partition.number, partition.applied, partition.leader_epoch)
        yield from _state(partition.state.content())
    yield _NO_MORE_SECTIONS


def _state(content: StateContent) -> Iterator[bytes]:
    yield _U32.pack(len(content.topic_names))
    for topic_id, name in content.topic_names.items():
        yield topic_id + _name(name)
    yield _U32.pack(len(content.mentioned_names))
    yield from map(_name, sorted(content.mentioned_names))
    yield _U32.pack(len(content.deleted))
    yield from (_TOPIC_PARTITION.pack(*key) for key in sorted(content.deleted))
    yield _U32.pack(len(content.deletes))
    for delete in content.deletes:
        event = encode_event(delete)
        yield _U32.pack(len(event)) + event
    yield _U32.pack(content.partition_count)
    for partition in content.partitions:
        yield from _partition(partition)


def _partition(content: PartitionContent) -> Iterator[bytes]:
    partition = content.partition
    yield _TOPIC_PARTITION.pack(partition.topic_id.raw, partition.partition) + _name(partition.topic)
    yield _U32.pack(len(content.segment_ids))
    yield from _pieces(content.segment_ids)
    yield from _numbers("I", map(len, content.packed_segments))
    yield from _pieces(content.packed_segments)
    yield _U32.pack(len(content.epochs))
    position_of = dict(zip(content.segment_ids, range(len(content.segment_ids)), strict=True))
    for number, epoch in content.epochs.items():
        highest = epoch.highest_offset
        yield _EPOCH.pack(number, highest is not None, 0 if highest is None else highest)
        yield _U32.pack(len(epoch.reference_ids))
        yield from _numbers("q", iter(epoch.reference_offsets))
        yield from _numbers("I", map(position_of.__getitem__, epoch.reference_ids))
    former = sorted(
        (position_of[raw_id], epoch) for raw_id, epochs in content.former_epochs.items() for epoch in epochs
    )
    yield _U32.pack(len(former))
    yield from (_FORMER_EPOCH.pack(*each) for each in former)


def _pieces(pieces: Sequence[bytes]) -> Iterator[bytes]:
    return (b"".join(pieces[start : start + _BATCH]) for start in range(0, len(pieces), _BATCH))


def _numbers(kind: str, numbers: Iterator[int]) -> Iterator[bytes]:
    while batch := tuple(islice(numbers, _BATCH)):
        yield struct.pack(f">{len(batch)}{kind}", *batch)


def _name(name: str) -> bytes:
    return _U8.pack(len(name)) + name.encode("ascii")


def _read_section(content: SnapshotBytes) -> PartitionSnapshot:
    number, applied, leader_epoch = content.unpack(_SECTION)
    try:
        state = MetadataState.restored(_read_state(content))
    except _INCONSISTENT as reason:
        raise SnapshotRefused(f"metadata partition {number} of the snapshot contradicts itself: {reason}") from None
    return PartitionSnapshot(number, applied, leader_epoch, state)


def _read_state(content: SnapshotBytes) -> StateContent:
    topic_names = {content.take(_ID_BYTES): content.name() for _ in range(content.count())}
    mentioned_names = {content.name() for _ in range(content.count())}
    deleted = {_read_key(content) for _ in range(content.count())}
    deletes = [_read_delete(content) for _ in range(content.count())]
    partition_count = content.count()
    partitions = (_read_partition(content) for _ in range(partition_count))
    return StateContent(topic_names, mentioned_names, deleted, deletes, partition_count, partitions)


def _read_key(content: SnapshotBytes) -> PartitionKey:
    topic_id, number = content.unpack(_TOPIC_PARTITION)
    return topic_id, number


def _read_delete(content: SnapshotBytes) -> RemotePartitionDeleteMetadata:
    event = decode_event(content.take(content.count()))
    if not isinstance(event, RemotePartitionDeleteMetadata):
        raise Contradiction("an event among the deletions of partitions is none")
    return event


def _read_partition(content: SnapshotBytes) -> PartitionContent:
    topic_id, number = _read_key(content)
    partition = TopicIdPartition(TopicId(topic_id), number, content.name())
    segment_count = content.count()
    segment_ids = content.ids(segment_count)
    packed_segments = content.pieces(content.numbers("I", segment_count))
    epochs = dict(_read_epoch(content, segment_ids) for _ in range(content.count()))
    return PartitionContent(
        partition, segment_ids, packed_segments, epochs, former_epochs=_read_former_epochs(content, segment_ids)
    )


def _read_epoch(content: SnapshotBytes, segment_ids: Sequence[bytes]) -> tuple[int, EpochContent]:
    number, has_highest, highest = content.unpack(_EPOCH)
    reference_count = content.count()
    offsets = array("q", content.numbers("q", reference_count))
    positions = content.numbers("I", reference_count)
    if max(positions, default=-1) >= len(segment_ids):
        raise Contradiction(f"a reference of leader epoch {number} is to no segment")
    reference_ids = [segment_ids[position] for position in positions]
    return number, EpochContent(highest if has_highest else None, offsets, reference_ids)


def _read_former_epochs(content: SnapshotBytes, segment_ids: Sequence[bytes]) -> dict[bytes, list[int]]:
    former: dict[bytes, list[int]] = {}
    for _ in range(content.count()):
        position, epoch = content.unpack(_FORMER_EPOCH)
        if position >= len(segment_ids):
            raise Contradiction(f"leader epoch {epoch} was formerly that of no segment")
        former.setdefault(segment_ids[position], []).append(epoch)
    return former
