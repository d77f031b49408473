"""Page tokens: the key of the last item of a page, so that they are valid on any replica and for ever.

segments   = start-offset[i64] segment-id[16]
partitions = topic-id[16] partition[i32] topic-name
"""

from __future__ import annotations

import struct

from tiergate_client.errors import InvalidField
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import PartitionSummary, RemoteLogSegmentMetadata, TopicIdPartition

_VERSION = 1
_SEGMENT = struct.Struct(">Bq16s")
_PARTITION = struct.Struct(">B16si")


def after_segment(segment: RemoteLogSegmentMetadata) -> bytes:
    return _SEGMENT.pack(_VERSION, segment.start_offset, segment.segment_id.raw)


def segment_key(page_token: bytes) -> tuple[int, SegmentId] | None:
    if not page_token:
        return None
    try:
        version, start_offset, segment_id = _SEGMENT.unpack(page_token)
    except struct.error:
        raise _not_ours() from None
    if version != _VERSION:
        raise _not_ours()
    return start_offset, SegmentId(segment_id)


def after_partition(summary: PartitionSummary) -> bytes:
    partition = summary.partition
    return _PARTITION.pack(_VERSION, partition.topic_id.raw, partition.partition) + partition.topic.encode("ascii")


def partition_key(page_token: bytes) -> tuple[str, TopicId, int] | None:
    if not page_token:
        return None
    try:
        version, topic_id, number = _PARTITION.unpack(page_token[: _PARTITION.size])
        partition = TopicIdPartition(TopicId(topic_id), number, page_token[_PARTITION.size :].decode("ascii"))
    except (struct.error, UnicodeDecodeError, InvalidField):
        raise _not_ours() from None
    if version != _VERSION:
        raise _not_ours()
    return partition.topic, partition.topic_id, partition.partition


def _not_ours() -> InvalidField:
    return InvalidField.of("page_token", "this is no page token of this call; begin again without one")
