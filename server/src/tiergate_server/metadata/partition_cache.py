"""What the events of one user partition add up to, and the questions that can be asked about it.

The interface and its rules. How the segments are kept is not decided here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, SegmentState
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.state_content import PartitionContent
from tiergate_server.metadata.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """A partition in numbers. Sizes and offsets are those of the segments in COPY_FINISHED."""

    segment_count: int
    finished_segment_count: int
    finished_size_bytes: int
    start_offset: int | None
    end_offset: int | None


class PartitionCache(ABC):
    """The segments of one partition, by Kafka's rules. Used from one thread; never blocks; raises nothing.

    A segment is known from its Add until DELETE_FINISHED. For every leader epoch that segments have, there are

    - the members: every known segment with that epoch, or that had it in an earlier Add;
    - the references: start offset of the epoch in a segment -> that segment, for finished segments that can be found;
    - the highest offset, which only grows and outlives the segments.

    An epoch ends in a segment before the start of the next higher epoch of that segment, or with the segment.

    In two places this departs from Kafka, in neither of them for a lookup or a highest offset. A finished segment
    whose reference is taken by another with the same start stays a member (Kafka loses it until its deletion,
    KAFKA-20932). A segment that is deleted leaves also the epochs of an earlier Add (in Kafka it stays in those, and
    from then on they cannot be listed).
    """

    @abstractmethod
    def apply_add(self, metadata: RemoteLogSegmentMetadata) -> Verdict:
        """Makes a segment known, or announces it anew while it is in COPY_STARTED.

        Over a later state it is dropped: IllegalTransition. An Add must carry COPY_STARTED; one that does not is
        dropped as an update to its state would be where that is illegal: IllegalTransition, or UnknownSegment.
        """

    @abstractmethod
    def apply_update(self, update: RemoteLogSegmentMetadataUpdate) -> Verdict:
        """A step in a segment's life; it replaces state, custom metadata, broker id and event time.

        - UnknownSegment when the segment is not known, IllegalTransition for an illegal step and for any step to
          COPY_STARTED, which only an Add may make. Both are dropped.
        - COPY_FINISHED, for each epoch from s to e: while the last reference is at s or above, and the highest offset
          is at most e, that reference goes. Then s refers to this segment, and the highest offset is at least e.
        - DELETE_STARTED: the segment's own references go.
        - DELETE_FINISHED: the segment is not known any more.
        """

    @abstractmethod
    def segment(self, segment_id: SegmentId) -> RemoteLogSegmentMetadata | None:
        """A known segment, in any state."""

    @abstractmethod
    def state_of(self, segment_id: SegmentId) -> SegmentState | None:
        """The state of a known segment, without building the rest of it."""

    @abstractmethod
    def find(self, *, leader_epoch: int, offset: int) -> PackedSegment | None:
        """The segment of the reference at `offset` or closest below it, unless the epoch ends there before `offset`."""

    @abstractmethod
    def find_next_with_txn_index(self, *, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """What `find` finds, unless its transaction index is empty: then what it finds behind the end of that segment.

        And so on, in the same epoch, until nothing is found.
        """

    @abstractmethod
    def log_size(self, *, leader_epoch: int) -> int:
        """Bytes of the known segments of the epoch, in any state."""

    @abstractmethod
    def highest_offset(self, *, leader_epoch: int) -> int | None:
        """The highest offset of the epoch in any segment that ever was finished."""

    @abstractmethod
    def segments_after(
        self, *, leader_epoch: int | None, after: tuple[int, SegmentId] | None, limit: int
    ) -> list[RemoteLogSegmentMetadata]:
        """Known segments in any state, ascending by (start offset, segment id): of one epoch, or all with None.

        The first `limit` of those strictly behind `after`, which need not be there any more.
        """

    @abstractmethod
    def copy(self) -> PartitionCache:
        """A cache of its own with the same answers; no work in Python for each segment."""

    @abstractmethod
    def content(self) -> PartitionContent:
        """All that the cache holds."""

    @abstractmethod
    def figures(self) -> PartitionFigures:
        """The partition in numbers, now."""
