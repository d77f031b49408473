"""The cache of one user partition in memory, built for a million segments: what is kept is packed.

The rules are those of PartitionCache, where they are written down; persistence is not its business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiergate_client.ids import SegmentId
from tiergate_client.values import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata import packed_segment
from tiergate_server.metadata.cached_epoch import CachedEpoch
from tiergate_server.metadata.finished_figures import FinishedFigures
from tiergate_server.metadata.offset_order import OffsetOrder
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.partition_cache import PartitionCache, PartitionFigures
from tiergate_server.metadata.state_content import Contradiction, PartitionContent
from tiergate_server.metadata.verdict import APPLIED, UNKNOWN_SEGMENT, IllegalTransition, Verdict


class PackedPartitionCache(PartitionCache):
    """See PartitionCache. A segment of one epoch takes about 300 bytes."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self._partition = partition
        self._by_id: dict[bytes, bytes] = {}
        self._order = OffsetOrder()
        self._epochs: dict[int, CachedEpoch] = {}
        self._former_epochs: dict[bytes, Sequence[int]] = {}  # that list a segment for an earlier Add of it: hardly any
        self._finished = FinishedFigures()

    def apply_add(self, metadata: RemoteLogSegmentMetadata) -> Verdict:
        raw_id = metadata.segment_id.raw
        known = self._by_id.get(raw_id)
        if known is not None and packed_segment.state_of(known) is not SegmentState.COPY_STARTED:
            return IllegalTransition(packed_segment.state_of(known), metadata.state)
        if metadata.state is not SegmentState.COPY_STARTED:
            return UNKNOWN_SEGMENT if known is None else IllegalTransition(SegmentState.COPY_STARTED, metadata.state)
        numbers = [number for number, _ in metadata.segment_leader_epochs.entries]
        if known is not None:
            former = sorted(set(self._epochs_of(raw_id, known)).difference(numbers))
            self._forget(raw_id, known)
            if former:
                self._former_epochs[raw_id] = former
                numbers += former
        self._by_id[raw_id] = packed_segment.pack(metadata)
        self._order.add(metadata.start_offset, raw_id)
        for number in numbers:
            epoch = self._epochs.get(number)
            if epoch is None:
                epoch = self._epochs[number] = CachedEpoch()
            epoch.members.add(metadata.start_offset, raw_id)
            epoch.size_bytes += metadata.segment_size_bytes
        return APPLIED

    def apply_update(self, update: RemoteLogSegmentMetadataUpdate) -> Verdict:
        raw_id = update.segment_id.raw
        known = self._by_id.get(raw_id)
        if known is None:
            return UNKNOWN_SEGMENT
        state = packed_segment.state_of(known)
        if update.state is SegmentState.COPY_STARTED or not state.may_become(update.state):
            return IllegalTransition(state, update.state)
        if update.state is SegmentState.DELETE_FINISHED:
            self._forget(raw_id, known)
            return APPLIED
        self._by_id[raw_id] = packed_segment.updated(known, update)
        if update.state is SegmentState.COPY_FINISHED:
            self._refer(raw_id, known)
            if state is not SegmentState.COPY_FINISHED:
                self._finished.add(*packed_segment.offsets_of(known), packed_segment.size_of(known))
        else:
            self._unrefer(raw_id, known)
            if state is SegmentState.COPY_FINISHED:
                self._finished.remove(*packed_segment.offsets_of(known), packed_segment.size_of(known))
        return APPLIED

    def segment(self, segment_id: SegmentId) -> RemoteLogSegmentMetadata | None:
        known = self._by_id.get(segment_id.raw)
        return None if known is None else self._value(segment_id.raw, known)

    def state_of(self, segment_id: SegmentId) -> SegmentState | None:
        known = self._by_id.get(segment_id.raw)
        return None if known is None else packed_segment.state_of(known)

    def find(self, *, leader_epoch: int, offset: int) -> PackedSegment | None:
        raw_id = self._find(leader_epoch, offset)
        return None if raw_id is None else PackedSegment(self._partition, raw_id, self._by_id[raw_id])

    def find_next_with_txn_index(self, *, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        epoch = self._epochs.get(leader_epoch)
        # Each reference is met once; only epochs that do not fit their segment could lead in a circle, for ever.
        for _ in range(0 if epoch is None else len(epoch.references)):
            raw_id = self._find(leader_epoch, offset)
            if raw_id is None:
                return None
            known = self._by_id[raw_id]
            if not packed_segment.is_txn_index_empty(known):
                return self._value(raw_id, known)
            _, end = packed_segment.offsets_of(known)
            offset = end + 1
        return None

    def log_size(self, *, leader_epoch: int) -> int:
        epoch = self._epochs.get(leader_epoch)
        return 0 if epoch is None else epoch.size_bytes

    def highest_offset(self, *, leader_epoch: int) -> int | None:
        epoch = self._epochs.get(leader_epoch)
        return None if epoch is None else epoch.highest

    def segments_after(
        self, *, leader_epoch: int | None, after: tuple[int, SegmentId] | None, limit: int
    ) -> list[RemoteLogSegmentMetadata]:
        order = self._order
        if leader_epoch is not None:
            epoch = self._epochs.get(leader_epoch)
            if epoch is None:
                return []
            order = epoch.members
        key = None if after is None else (after[0], after[1].raw)
        return [self._value(raw_id, self._by_id[raw_id]) for raw_id in order.first_after(key, limit=limit)]

    def copy(self) -> PackedPartitionCache:
        copied = PackedPartitionCache(self._partition)
        copied._by_id = self._by_id.copy()
        copied._order = self._order.copy()
        copied._epochs = {number: epoch.copy() for number, epoch in self._epochs.items()}
        copied._former_epochs = self._former_epochs.copy()
        copied._finished = self._finished.copy()
        return copied

    def content(self) -> PartitionContent:
        segment_ids = list(self._order)
        return PartitionContent(
            partition=self._partition,
            segment_ids=segment_ids,
            packed_segments=[self._by_id[raw_id] for raw_id in segment_ids],
            epochs={number: epoch.content() for number, epoch in self._epochs.items()},
            former_epochs=self._former_epochs,
        )

    @classmethod
    def restored(cls, content: PartitionContent) -> PackedPartitionCache:
        """A cache of this content. Raises Contradiction when there can be none."""
        cache = cls(content.partition)
        cache._by_id = dict(zip(content.segment_ids, content.packed_segments, strict=True))
        if len(cache._by_id) != len(content.segment_ids):
            raise Contradiction(f"a segment of {content.partition} is there twice")
        cache._epochs = {number: CachedEpoch() for number in content.epochs}
        findable: dict[int, dict[bytes, int]] = {number: {} for number in content.epochs}
        try:
            cache._restore_segments(findable)
            cache._restore_former_epochs(content.former_epochs)
        except KeyError as epoch:
            raise Contradiction(f"leader epoch {epoch} of {content.partition} is missing") from None
        for number, epoch_content in content.epochs.items():
            cache._epochs[number].restore_references(epoch_content, findable[number])
        return cache

    def _restore_segments(self, findable: Mapping[int, dict[bytes, int]]) -> None:
        """Puts the segments in their places. `findable`: epoch -> finished segment -> start of the epoch in it."""
        is_finished = SegmentState.COPY_FINISHED.value
        for raw_id, packed in self._by_id.items():
            start, end, size_bytes, state, epochs = packed_segment.checked(packed)
            self._order.add(start, raw_id)
            for number, epoch_start in epochs:
                epoch = self._epochs[number]
                epoch.members.add(start, raw_id)
                epoch.size_bytes += size_bytes
                if state == is_finished:
                    findable[number][raw_id] = epoch_start
            if state == is_finished:
                self._finished.add(start, end, size_bytes)

    def _restore_former_epochs(self, former_epochs: Mapping[bytes, Sequence[int]]) -> None:
        for raw_id, numbers in former_epochs.items():
            packed = self._by_id[raw_id]
            start, _ = packed_segment.offsets_of(packed)
            listed = [*self._epochs_of(raw_id, packed), *numbers]
            if len(set(listed)) != len(listed):
                raise Contradiction(f"the segment at offset {start} is twice in a leader epoch")
            for number in numbers:
                self._epochs[number].members.add(start, raw_id)
                self._epochs[number].size_bytes += packed_segment.size_of(packed)
            self._former_epochs[raw_id] = numbers

    def figures(self) -> PartitionFigures:
        start_offset, end_offset = self._finished.offsets(self._by_start)
        return PartitionFigures(
            segment_count=len(self._by_id),
            finished_segment_count=self._finished.count,
            finished_size_bytes=self._finished.size_bytes,
            start_offset=start_offset,
            end_offset=end_offset,
        )

    def _find(self, leader_epoch: int, offset: int) -> bytes | None:
        epoch = self._epochs.get(leader_epoch)
        raw_id = None if epoch is None else epoch.references.floor(offset)
        if raw_id is None:
            return None
        for of_epoch, _, last in packed_segment.epoch_ranges(self._by_id[raw_id]):
            if of_epoch == leader_epoch:
                return raw_id if offset <= last else None
        return None

    def _refer(self, raw_id: bytes, packed: bytes) -> None:
        segment_start, _ = packed_segment.offsets_of(packed)
        kept_id = self._order.kept_id(segment_start, raw_id)
        for epoch, start, last in packed_segment.epoch_ranges(packed):
            self._epochs[epoch].refer(start, last, kept_id)

    def _unrefer(self, raw_id: bytes, packed: bytes) -> None:
        for epoch, start, _ in packed_segment.epoch_ranges(packed):
            self._epochs[epoch].references.discard(start, raw_id)

    def _forget(self, raw_id: bytes, packed: bytes) -> None:
        segment_start, _ = packed_segment.offsets_of(packed)
        size_bytes = packed_segment.size_of(packed)
        self._order.discard(segment_start, raw_id)
        for epoch in self._epochs_of(raw_id, packed):
            self._epochs[epoch].members.discard(segment_start, raw_id)
            self._epochs[epoch].size_bytes -= size_bytes
        self._former_epochs.pop(raw_id, None)
        del self._by_id[raw_id]

    def _epochs_of(self, raw_id: bytes, packed: bytes) -> list[int]:
        """Those that list the segment."""
        return [epoch for epoch, _, _ in packed_segment.epoch_ranges(packed)] + [*self._former_epochs.get(raw_id, ())]

    def _by_start(self) -> Iterator[bytes]:
        return (self._by_id[raw_id] for raw_id in self._order)

    def _value(self, raw_id: bytes, packed: bytes) -> RemoteLogSegmentMetadata:
        return packed_segment.unpack(packed, partition=self._partition, raw_id=raw_id)
