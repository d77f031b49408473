"""A small snapshot that holds something of everything, and short words for writing and reading one."""

from __future__ import annotations

from dataclasses import replace

from unit.metadata.cache_scenarios import PARTITION, segment

from tiergate_client.ids import LogId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.snapshot import PartitionSnapshot, capture
from tiergate_server.metadata.snapshot_codec import SnapshotHeader, encode
from tiergate_server.metadata.state import MetadataState

LOG_ID = LogId(b"L" * 16)
HEADER = SnapshotHeader(log_id=LOG_ID, partition_count=50, created_at_ms=1_700_000_000_000)
RENAMED = TopicIdPartition(PARTITION.topic_id, 0, "renamed")
MARKED = TopicIdPartition(PARTITION.topic_id, 1, "topic")
DELETED = TopicIdPartition(TopicId(b"D" * 16), 7, "gone")
PARTITIONS = (PARTITION, RENAMED, MARKED, DELETED)


def small_state() -> MetadataState:
    state = MetadataState()
    longer, shorter = segment(1, 0, 9, {0: 0, 2: 5}), segment(2, 0, 7, {0: 0, 1: 3})
    leaving = replace(segment(3, 8, 11, {2: 8}), custom_metadata=None, txn_index_empty=True)
    for metadata in (longer, shorter, leaving):
        state.apply(metadata)
        state.apply(metadata.step(SegmentState.COPY_FINISHED, event_timestamp_ms=7))
    state.apply(leaving.step(SegmentState.DELETE_STARTED, event_timestamp_ms=8))
    state.apply(segment(6, 10, 12, {1: 10, 2: 11}))
    state.apply(segment(6, 10, 11, {3: 10}))  # which epochs 1 and 2 list as well
    state.apply(replace(segment(4, 12, 12), partition=RENAMED))
    state.apply(replace(segment(5, 0, 12), partition=MARKED))
    state.apply(RemotePartitionDeleteMetadata(MARKED, PartitionDeleteState.DELETE_PARTITION_MARKED, 9, 1))
    state.apply(RemotePartitionDeleteMetadata(DELETED, PartitionDeleteState.DELETE_PARTITION_FINISHED, 9, 1))
    return state


def small_partition(number: int = 3) -> PartitionSnapshot:
    return capture(number, applied=41, leader_epoch=6, state=small_state())


def encoded(*partitions: PartitionSnapshot, header: SnapshotHeader = HEADER) -> bytes:
    return b"".join(encode(header, partitions))
