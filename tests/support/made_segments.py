"""Segments of any batches, put into the tier past every writer of logs: also what no broker would tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from support.record_batches import MadeBatch
from support.segments import make_metadata
from tiergate_client import LogSegmentData, RemoteLogSegmentMetadata, SegmentState, TopicId
from tiergate_client.segment_lifecycle import Tier

EPOCH = 7
"""Which MadeBatch writes into its batches."""


def tier_batches(
    tier: Tier,
    batches: Sequence[MadeBatch],
    *,
    topic: str,
    topic_id: TopicId,
    end_offset: int,
    partition: int = 0,
    damage_at: int | None = None,
    txn_index: bytes | None = None,
) -> RemoteLogSegmentMetadata:
    """One finished segment from the first batch's base offset on; the byte at `damage_at` is another one."""
    log = bytearray(b"".join(batch.encode() for batch in batches))
    if damage_at is not None:
        log[damage_at] ^= 0xFF
    start_offset = batches[0].base_offset
    metadata = make_metadata(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        start_offset=start_offset,
        end_offset=end_offset,
        epochs={EPOCH: start_offset},
        segment_size_bytes=len(log),
    )
    metadata = replace(metadata, max_timestamp_ms=max(batch.max_timestamp_ms for batch in batches))
    data = LogSegmentData(bytes(log), b"", b"", leader_epoch=f"0\n1\n{EPOCH} 0\n".encode(), txn_index=txn_index)
    tier.metadata.add_segment(metadata)
    custom_metadata = tier.storage.copy_segment(metadata, data)
    finished = metadata.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1, custom_metadata=custom_metadata)
    tier.metadata.update_segment(finished)
    return metadata.updated_by(finished)
