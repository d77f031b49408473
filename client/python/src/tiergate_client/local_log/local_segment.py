"""One rolled segment of a partition directory, ready to be copied; finding it is not done here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """The offsets of a segment, its files, and what its batches say."""

    partition: TopicIdPartition
    log: Path
    base_offset: int
    end_offset: int
    leader_epochs: LeaderEpochs
    size_bytes: int
    max_timestamp_ms: int
    txn_index_empty: bool
    data: LogSegmentData

    def new_metadata(self, *, broker_id: int, event_timestamp_ms: int) -> RemoteLogSegmentMetadata:
        """Announces a new attempt to copy this segment, under a new id."""
        return RemoteLogSegmentMetadata(
            partition=self.partition,
            segment_id=SegmentId.random(),
            start_offset=self.base_offset,
            end_offset=self.end_offset,
            segment_leader_epochs=self.leader_epochs,
            segment_size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms,
            broker_id=broker_id,
            event_timestamp_ms=event_timestamp_ms,
            txn_index_empty=self.txn_index_empty,
        )

    def has_offsets_of(self, metadata: RemoteLogSegmentMetadata) -> bool:
        return (
            metadata.partition == self.partition
            and metadata.start_offset == self.base_offset
            and metadata.end_offset == self.end_offset
        )

    def is_described_by(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Whether a remote segment claims the same offsets, epochs and size. Its bytes may still differ."""
        return (
            self.has_offsets_of(metadata)
            and metadata.segment_leader_epochs == self.leader_epochs
            and metadata.segment_size_bytes == self.size_bytes
        )
