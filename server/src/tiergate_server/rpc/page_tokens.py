"""Pages of a listing: how long they are, and their tokens.

A token is the key of the last item of a page, so that it is valid on any replica and for ever.

segments   = start-offset[i64] segment-id[16]
partitions = topic-id[16] partition[i32] topic-name
uploads    = segment-id[16] upload-digest[16]
"""

from __future__ import annotations

import struct

from tiergate_client.errors import InvalidField, LimitExceeded
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.upload_progress import UploadKey, UploadSummary
from tiergate_client.values import PartitionSummary, RemoteLogSegmentMetadata, TopicIdPartition

_VERSION = 1
_SEGMENT = struct.Struct(">Bq16s")
_PARTITION = struct.Struct(">B16si")
_UPLOAD = struct.Struct(">B16s16s")


def page_limit(page_size: int, limit: int) -> int:
    """How many entries a page has when `page_size` were asked for."""
    if page_size < 0:
        raise InvalidField.of("page_size", f"{page_size} is negative")
    if page_size > limit:
        raise LimitExceeded.of("page_size", limit, f"a page of {page_size} is above the limit of {limit}")
    return page_size or limit


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


def after_upload(upload: UploadSummary) -> bytes:
    return _UPLOAD.pack(_VERSION, upload.segment_id.raw, bytes.fromhex(upload.upload_digest))


def upload_key(page_token: bytes) -> UploadKey | None:
    if not page_token:
        return None
    try:
        version, segment_id, digest = _UPLOAD.unpack(page_token)
    except struct.error:
        raise _not_ours() from None
    if version != _VERSION:
        raise _not_ours()
    return SegmentId(segment_id), digest.hex()


def _not_ours() -> InvalidField:
    return InvalidField.of("page_token", "this is no page token of this call; begin again without one")
