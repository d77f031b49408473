"""Metadata events as hypothesis draws them: everything that the formats can carry."""

from __future__ import annotations

from hypothesis import strategies as st

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
topic_names = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))
custom_metadata = st.none() | st.binary(max_size=300)
epochs = st.dictionaries(int32, int64, min_size=1, max_size=200).map(LeaderEpochs.of)
segment_states = st.sampled_from(SegmentState)

partitions = st.builds(TopicIdPartition, st.builds(TopicId, ids), st.integers(0, 2**31 - 1), topic_names)


@st.composite
def segments(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    first, last = sorted((draw(offsets), draw(offsets)))
    return RemoteLogSegmentMetadata(
        partition=draw(partitions),
        segment_id=SegmentId(draw(ids)),
        start_offset=first,
        end_offset=last,
        segment_leader_epochs=draw(epochs),
        segment_size_bytes=draw(int32),
        max_timestamp_ms=draw(int64),
        broker_id=draw(int32),
        event_timestamp_ms=draw(int64),
        custom_metadata=draw(custom_metadata),
        state=draw(segment_states),
        txn_index_empty=draw(st.booleans()),
    )


updates = st.builds(
    RemoteLogSegmentMetadataUpdate,
    partition=partitions,
    segment_id=st.builds(SegmentId, ids),
    state=segment_states,
    custom_metadata=custom_metadata,
    event_timestamp_ms=int64,
    broker_id=int32,
)
partition_deletes = st.builds(
    RemotePartitionDeleteMetadata,
    partition=partitions,
    state=st.sampled_from(PartitionDeleteState),
    event_timestamp_ms=int64,
    broker_id=int32,
)
events = segments() | updates | partition_deletes
