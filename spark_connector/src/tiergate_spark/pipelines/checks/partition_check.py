"""Checks the history of a partition: which offsets its finished segments leave out, and which they hold for nothing.

Only metadata and the index that tells the lineage are read. Each segment is checked for itself in `segment_check.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.errors import DataLoss, SegmentNotFound
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.records.history import HistoryPiece, PartitionHistory, load_history
from tiergate_client.records.lineage import offsets_within
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_spark.pipelines.checks.finding import Finding, Kind, Severity


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The finished segments, to be checked one by one, and what is wrong with all of them together."""

    partition: TopicIdPartition
    finished: tuple[RemoteLogSegmentMetadata, ...]
    findings: tuple[tuple[str | None, Finding], ...]
    """Each with the id of the segment that it is about, where it is about one."""


def check_partition(
    metadata: RemoteLogMetadata, storage: RemoteStorage, partition: TopicIdPartition
) -> PartitionReport:
    """Raises what keeps metadata or store from being read, such as Unavailable: that is no damage."""
    segments = list(metadata.list_segments(partition))
    finished = tuple(one for one in segments if one.state is SegmentState.COPY_FINISHED)
    try:
        history = load_history(metadata, storage, partition)
    except (DataLoss, SegmentNotFound) as error:
        finding = Finding(
            Kind.LEADER_EPOCH_INDEX,
            Severity.DAMAGE,
            f"the lineage of the partition can not be told, and nothing of it be read: {error.message}",
            SegmentFile.LEADER_EPOCH.value,
        )
        return PartitionReport(partition, finished, ((error.details.get("segment"), finding),))
    unfinished = [one for one in segments if one.state is not SegmentState.COPY_FINISHED]
    holes = [(None, _hole(*hole, unfinished)) for hole in history.holes(history.start_offset, history.stop_offset)]
    return PartitionReport(partition, finished, (*holes, *_not_needed(finished, history)))


def _hole(start: int, stop: int, unfinished: list[RemoteLogSegmentMetadata]) -> Finding:
    """One that segments fill which are being copied or deleted explains itself."""
    others = [one for one in unfinished if one.start_offset < stop and one.end_offset >= start]
    rest = start
    for one in others:  # ascending by start offset
        rest = max(rest, one.end_offset + 1) if one.start_offset <= rest else rest
    told = "; ".join(f"segment {one.segment_id} holds some, in {one.state.name}" for one in others[:3])
    return Finding(
        Kind.MISSING_OFFSETS,
        Severity.WARNING if rest >= stop else Severity.DAMAGE,
        f"no finished segment holds the offsets {start} to {stop - 1}" + (f"; {told}" if told else ""),
        offset=start,
    )


def _not_needed(
    finished: tuple[RemoteLogSegmentMetadata, ...], history: PartitionHistory
) -> list[tuple[str | None, Finding]]:
    """Copies that a leader made of what others had copied, or of what it lost afterwards: both only take space."""
    pieces: dict[str, list[HistoryPiece]] = {}
    for piece in history.pieces:
        pieces.setdefault(str(piece.segment.segment_id), []).append(piece)
    found: list[tuple[str | None, Finding]] = []
    for segment in finished:
        name = str(segment.segment_id)
        runs = offsets_within(history.lineage, segment, stop_offset=history.stop_offset)
        held = sum(stop - start for start, stop in runs)
        read = sum(piece.stop_offset - piece.start_offset for piece in pieces.get(name, ()))
        if not held:
            fact = "it holds nothing of the partition's lineage: what is in it was lost by its leader, or deleted since"
            found.append((name, Finding(Kind.OUTSIDE_LINEAGE, Severity.NOTE, fact, offset=segment.start_offset)))
        elif read < held:
            fact = f"other segments hold {held - read} of its offsets, too; each is read once"
            found.append((name, Finding(Kind.OVERLAP, Severity.NOTE, fact, offset=runs[0][0])))
    return found
