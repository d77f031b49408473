"""Short words for segments and what happens to them, for the tests of the partition cache."""

from __future__ import annotations

from collections.abc import Mapping

from support.metadata_answers import found_value
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_server.metadata.partition_cache import PartitionCache
from tiergate_server.metadata.verdict import Verdict

PARTITION = TopicIdPartition(TopicId(b"T" * 16), 0, "topic")

STEPS_TO: Mapping[SegmentState, tuple[SegmentState, ...]] = {
    SegmentState.COPY_STARTED: (),
    SegmentState.COPY_FINISHED: (SegmentState.COPY_FINISHED,),
    SegmentState.DELETE_STARTED: (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
}
"""The updates that lead from COPY_STARTED to a state in which a segment is known."""


def segment(number: int, start: int, end: int, epochs: Mapping[int, int] | None = None) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        partition=PARTITION,
        segment_id=SegmentId(number.to_bytes(16)),
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=LeaderEpochs.of(epochs or {0: start}),
        segment_size_bytes=1000 + number,
        custom_metadata=b"custom",
    )


def step(cache: PartitionCache, metadata: RemoteLogSegmentMetadata, state: SegmentState) -> Verdict:
    return cache.apply_update(metadata.step(state, event_timestamp_ms=7))


def finish(cache: PartitionCache, metadata: RemoteLogSegmentMetadata) -> None:
    cache.apply_add(metadata)
    step(cache, metadata, SegmentState.COPY_FINISHED)


def delete(cache: PartitionCache, metadata: RemoteLogSegmentMetadata) -> None:
    step(cache, metadata, SegmentState.DELETE_STARTED)
    step(cache, metadata, SegmentState.DELETE_FINISHED)


def found(cache: PartitionCache, leader_epoch: int, offset: int) -> SegmentId | None:
    metadata = found_value(cache.find(leader_epoch=leader_epoch, offset=offset))
    return None if metadata is None else metadata.segment_id


def listed(cache: PartitionCache, leader_epoch: int | None = None) -> list[SegmentId]:
    page = cache.segments_after(leader_epoch=leader_epoch, after=None, limit=1000)
    return [metadata.segment_id for metadata in page]
