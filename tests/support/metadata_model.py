"""Kafka's rules for one partition, line by line and as naively as possible: dicts of full values, linear searches.

The independent model that the real cache is compared with. Three lines differ from Kafka on purpose and say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, SegmentState
from tiergate_server.metadata.partition_cache import PartitionFigures

LEGAL = {
    (SegmentState.COPY_STARTED, SegmentState.COPY_STARTED),
    (SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED),
    (SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED),
    (SegmentState.COPY_FINISHED, SegmentState.COPY_FINISHED),
    (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
    (SegmentState.DELETE_STARTED, SegmentState.DELETE_STARTED),
    (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED),
    (SegmentState.DELETE_FINISHED, SegmentState.DELETE_FINISHED),
}


@dataclass
class EpochModel:
    refs: dict[int, SegmentId] = field(default_factory=dict)
    unref: set[SegmentId] = field(default_factory=set)
    highest: int | None = None


@dataclass
class PartitionModel:
    by_id: dict[SegmentId, RemoteLogSegmentMetadata] = field(default_factory=dict)
    epochs: dict[int, EpochModel] = field(default_factory=dict)

    def add(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Whether the event was applied."""
        existing = self.by_id.get(metadata.segment_id)
        if metadata.state != SegmentState.COPY_STARTED:
            return False
        if existing is not None and existing.state != SegmentState.COPY_STARTED:
            return False
        self.by_id[metadata.segment_id] = metadata
        for epoch_number, _ in metadata.segment_leader_epochs:
            self.epochs.setdefault(epoch_number, EpochModel()).unref.add(metadata.segment_id)
        return True

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> bool:
        """Whether the event was applied."""
        existing = self.by_id.get(update.segment_id)
        if existing is None:
            return False
        if (existing.state, update.state) not in LEGAL:
            return False
        if update.state == SegmentState.COPY_STARTED:
            return False
        if update.state == SegmentState.COPY_FINISHED:
            self._finish(existing)
            self.by_id[update.segment_id] = existing.updated_by(update)
        elif update.state == SegmentState.DELETE_STARTED:
            for epoch_number, start in existing.segment_leader_epochs:
                epoch = self.epochs[epoch_number]
                if epoch.refs.get(start) == update.segment_id:
                    del epoch.refs[start]
                epoch.unref.add(update.segment_id)
            self.by_id[update.segment_id] = existing.updated_by(update)
        else:
            for epoch in self.epochs.values():  # Kafka leaves it in those of an earlier Add, and cannot list them then
                epoch.unref.discard(update.segment_id)
            del self.by_id[update.segment_id]
        return True

    def lookup(self, epoch_number: int, offset: int) -> RemoteLogSegmentMetadata | None:
        if epoch_number not in self.epochs:
            return None
        refs = self.epochs[epoch_number].refs
        below = [key for key in refs if key <= offset]
        if not below:
            return None
        metadata = self.by_id[refs[max(below)]]
        return None if offset > self._end(metadata, epoch_number) else metadata

    def next_with_txn_index(self, epoch_number: int, offset: int) -> RemoteLogSegmentMetadata | None:
        seen = set()
        metadata = self.lookup(epoch_number, offset)
        while metadata is not None and metadata.txn_index_empty:
            if metadata.segment_id in seen:
                return None  # Kafka goes round for ever; only epochs that do not fit their segment lead there
            seen.add(metadata.segment_id)
            metadata = self.lookup(epoch_number, metadata.end_offset + 1)
        return metadata

    def size(self, epoch_number: int) -> int:
        return sum(each.segment_size_bytes for each in self.listed(epoch_number))

    def highest(self, epoch_number: int) -> int | None:
        return self.epochs[epoch_number].highest if epoch_number in self.epochs else None

    def listed(self, epoch_number: int | None) -> list[RemoteLogSegmentMetadata]:
        if epoch_number is None:
            ids = set(self.by_id)
        elif epoch_number in self.epochs:
            epoch = self.epochs[epoch_number]
            ids = set(epoch.refs.values()) | epoch.unref
        else:
            ids = set()
        return sorted((self.by_id[each] for each in ids), key=lambda each: (each.start_offset, each.segment_id.raw))

    def figures(self) -> PartitionFigures:
        finished = [each for each in self.by_id.values() if each.state == SegmentState.COPY_FINISHED]
        return PartitionFigures(
            segment_count=len(self.by_id),
            finished_segment_count=len(finished),
            finished_size_bytes=sum(each.segment_size_bytes for each in finished),
            start_offset=min((each.start_offset for each in finished), default=None),
            end_offset=max((each.end_offset for each in finished), default=None),
        )

    def _finish(self, metadata: RemoteLogSegmentMetadata) -> None:
        for epoch_number, start in metadata.segment_leader_epochs:
            end = self._end(metadata, epoch_number)
            epoch = self.epochs[epoch_number]
            while epoch.refs and max(epoch.refs) >= start and epoch.highest is not None and epoch.highest <= end:
                epoch.unref.add(epoch.refs.pop(max(epoch.refs)))
            if start in epoch.refs and epoch.refs[start] != metadata.segment_id:
                epoch.unref.add(epoch.refs[start])  # Kafka loses the replaced id here (KAFKA-20932)
            epoch.refs[start] = metadata.segment_id
            epoch.unref.discard(metadata.segment_id)
            epoch.highest = end if epoch.highest is None else max(epoch.highest, end)

    @staticmethod
    def _end(metadata: RemoteLogSegmentMetadata, epoch_number: int) -> int:
        higher = [(epoch, start) for epoch, start in metadata.segment_leader_epochs if epoch > epoch_number]
        return min(higher)[1] - 1 if higher else metadata.end_offset
