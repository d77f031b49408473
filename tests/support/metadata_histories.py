"""Random histories of a few partitions in a small world, so that segments collide often."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)

SegmentEvent: TypeAlias = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate

OFFSETS = range(13)
EPOCHS = range(4)
"""The last one is never in a segment."""
SEGMENT_IDS = [SegmentId(number.to_bytes(16)) for number in range(6)]

_segment_ids = st.sampled_from(SEGMENT_IDS)
_custom_metadata = st.sampled_from([None, b"", b"custom"])


@st.composite
def adds(draw: st.DrawFn, partitions: st.SearchStrategy[TopicIdPartition]) -> RemoteLogSegmentMetadata:
    start = draw(st.integers(0, OFFSETS[-2]))
    end = draw(st.integers(start, OFFSETS[-2]))
    legal = draw(st.booleans())  # epochs as a broker writes them, or anything that the format allows
    numbers = sorted(draw(st.sets(st.sampled_from(EPOCHS[:-1]), min_size=1)))
    if legal:
        later = sorted(draw(st.lists(st.integers(start, end), min_size=len(numbers) - 1, max_size=len(numbers) - 1)))
        starts = [start, *later]
    else:
        starts = draw(st.lists(st.integers(-1, 13), min_size=len(numbers), max_size=len(numbers)))
    return RemoteLogSegmentMetadata(
        partition=draw(partitions),
        segment_id=draw(_segment_ids),
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=LeaderEpochs.of(zip(numbers, starts, strict=True)),
        segment_size_bytes=draw(st.integers(0, 1000)),
        custom_metadata=draw(_custom_metadata),
        txn_index_empty=draw(st.booleans()),
    )


def segment_events(partitions: st.SearchStrategy[TopicIdPartition]) -> st.SearchStrategy[SegmentEvent]:
    return adds(partitions) | st.builds(
        RemoteLogSegmentMetadataUpdate,
        partition=partitions,
        segment_id=_segment_ids,
        state=st.sampled_from([SegmentState.COPY_FINISHED, *SegmentState]),
        custom_metadata=_custom_metadata,
        event_timestamp_ms=st.integers(0, 9),
        broker_id=st.integers(0, 2),
    )


def partition_deletes(
    partitions: st.SearchStrategy[TopicIdPartition],
) -> st.SearchStrategy[RemotePartitionDeleteMetadata]:
    return st.builds(
        RemotePartitionDeleteMetadata,
        partition=partitions,
        state=st.sampled_from(PartitionDeleteState),
        event_timestamp_ms=st.integers(0, 9),
        broker_id=st.integers(0, 2),
    )
