"""Everything that a metadata state can be asked in the small world of `metadata_histories`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from support.metadata_histories import EPOCHS, OFFSETS, SEGMENT_IDS
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.state import MetadataState


def answers(state: MetadataState, partitions: Sequence[TopicIdPartition]) -> dict[str, object]:
    """By the question: two states that answer alike give the same."""
    return dict(_answers(state, partitions))


def _answers(state: MetadataState, partitions: Sequence[TopicIdPartition]) -> Iterator[tuple[str, object]]:
    topics = {partition.topic for partition in partitions}
    for topic in (None, *topics):
        listed = state.partitions_after(topic=topic, after=None, limit=100)
        yield f"partitions of {topic}", [(partition, partition.topic, figures) for partition, figures in listed]
    yield "known topics", {topic for topic in topics if state.knows_topic(topic)}
    for segment_id in SEGMENT_IDS:
        yield f"search {segment_id}", state.search(segment_id)
    for partition in partitions:
        yield f"name of {partition}", state.topic_name(partition.topic_id)
        yield f"deletion of {partition}", state.partition_delete_state(partition)
        yield f"deleted {partition}", state.is_deleted(partition)
        for segment_id in SEGMENT_IDS:
            yield f"{segment_id} of {partition}", state.segment(partition, segment_id)
        for epoch in (None, *EPOCHS):
            page = state.segments_after(partition, leader_epoch=epoch, after=None, limit=100)
            yield f"segments of {partition} {epoch}", [(each, each.partition.topic) for each in page]
        for epoch in EPOCHS:
            yield f"highest of {partition} {epoch}", state.highest_offset(partition, leader_epoch=epoch)
            yield f"size of {partition} {epoch}", state.log_size(partition, leader_epoch=epoch)
            for offset in range(-2, OFFSETS[-1] + 3):
                yield (
                    f"find in {partition} {epoch} {offset}",
                    found_value(state.find(partition, leader_epoch=epoch, offset=offset)),
                )
                found = state.find_next_with_txn_index(partition, leader_epoch=epoch, offset=offset)
                yield f"transaction index in {partition} {epoch} {offset}", found


def found_value(found: PackedSegment | None) -> RemoteLogSegmentMetadata | None:
    """What a lookup found, as the value that was put in."""
    return None if found is None else found.value()
