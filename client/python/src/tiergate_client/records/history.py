"""One history of a partition: the finished segments that a consumer's records come from, each offset once, ascending.

Several leaders may have copied the same offsets in different segments, and some what no consumer was ever to see. Which
bytes hold the offsets is not decided here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import SegmentNotFound
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.records.index_errors import corrupt_index
from tiergate_client.records.lineage import is_lineage_of, offsets_within
from tiergate_client.records.segment_indexes import parsed
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition


@dataclass(frozen=True, slots=True)
class HistoryPiece:
    """The offsets [start_offset, stop_offset), to be read from this segment."""

    segment: RemoteLogSegmentMetadata
    start_offset: int
    stop_offset: int

    @property
    def is_whole_at_its_end(self) -> bool:
        """Whether what the segment says of its end holds for the history too."""
        return self.stop_offset == self.segment.end_offset + 1


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """Pieces that ascend and do not overlap; between them may be holes."""

    partition: TopicIdPartition
    lineage: LeaderEpochs
    pieces: tuple[HistoryPiece, ...]

    @property
    def start_offset(self) -> int:
        return self.pieces[0].start_offset if self.pieces else 0

    @property
    def stop_offset(self) -> int:
        return self.pieces[-1].stop_offset if self.pieces else 0

    def holes(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The runs of [start, stop) that no piece holds, also before the first piece and behind the last."""
        found = []
        for piece in self.within(start, stop):
            if start < piece.start_offset:
                found.append((start, piece.start_offset))
            start = piece.stop_offset
        if start < stop:
            found.append((start, stop))
        return found

    def within(self, start: int, stop: int) -> Iterator[HistoryPiece]:
        """The pieces that hold [start, stop), clipped to it."""
        first = bisect_right(self.pieces, start, key=lambda piece: piece.stop_offset)
        for piece in self.pieces[first:]:
            if piece.start_offset >= stop:
                return
            clipped = max(start, piece.start_offset), min(stop, piece.stop_offset)
            if clipped[0] < clipped[1]:
                yield HistoryPiece(piece.segment, *clipped)


def load_history(metadata: RemoteLogMetadata, storage: RemoteStorage, partition: TopicIdPartition) -> PartitionHistory:
    """As the metadata says now; without finished segments it is empty.

    Listing is no snapshot: retention that runs meanwhile, from the oldest segment on, looks like a hole, or like a
    segment that is listed but not stored. What the second look says is true.
    """
    try:
        history = _look(metadata, storage, partition)
    except SegmentNotFound:
        return _look(metadata, storage, partition)
    if history.holes(history.start_offset, history.stop_offset):
        return _look(metadata, storage, partition)
    return history


def _look(metadata: RemoteLogMetadata, storage: RemoteStorage, partition: TopicIdPartition) -> PartitionHistory:
    finished = [one for one in metadata.list_segments(partition) if one.state is SegmentState.COPY_FINISHED]
    if not finished:
        return PartitionHistory(partition, LeaderEpochs(()), ())
    newest = max(finished, key=_newness)
    lineage = _lineage_of(newest, storage)
    runs = (
        HistoryPiece(segment, *run)
        for segment in finished
        for run in offsets_within(lineage, segment, stop_offset=newest.end_offset + 1)
    )
    return PartitionHistory(partition, lineage, tuple(_each_offset_once(runs)))


def _newness(segment: RemoteLogSegmentMetadata) -> tuple[int, int, int, bytes]:
    """The highest epoch, then the highest end; of copies of the same, any, but always the same one."""
    last_epoch = segment.segment_leader_epochs.entries[-1][0]
    return last_epoch, segment.end_offset, segment.event_timestamp_ms, segment.segment_id.raw


def _lineage_of(segment: RemoteLogSegmentMetadata, storage: RemoteStorage) -> LeaderEpochs:
    def parse(content: bytes) -> LeaderEpochs:
        lineage = LeaderEpochs.from_checkpoint(content)
        starts = [start for _, start in lineage]
        if starts != sorted(starts):
            raise corrupt_index("leader epoch index", "its start offsets do not ascend")
        if not is_lineage_of(lineage, segment):
            raise corrupt_index(
                "leader epoch index", "at the segment's offsets its epochs are not those of the metadata"
            )
        return lineage

    content = storage.fetch_index(segment, SegmentFile.LEADER_EPOCH)
    return parsed(segment, SegmentFile.LEADER_EPOCH, content, parse)


def _each_offset_once(runs: Iterable[HistoryPiece]) -> Iterator[HistoryPiece]:
    """In few pieces: of the runs that hold an offset, the one that reaches furthest."""
    coming = sorted(runs, key=lambda run: (run.start_offset, run.segment.segment_id.raw), reverse=True)
    open_runs: list[tuple[int, int, bytes, RemoteLogSegmentMetadata]] = []
    position = 0
    while coming or open_runs:
        if not open_runs:
            position = max(position, coming[-1].start_offset)
        while coming and coming[-1].start_offset <= position:
            run = coming.pop()
            # Among equals the latest start: a segment that begins at the position needs no index to be entered.
            heappush(open_runs, (-run.stop_offset, -run.start_offset, run.segment.segment_id.raw, run.segment))
        stop, segment = -open_runs[0][0], open_runs[0][3]
        if stop <= position:
            heappop(open_runs)
            continue
        yield HistoryPiece(segment, position, stop)
        position = stop
