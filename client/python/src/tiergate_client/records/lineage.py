"""Which offsets of a segment belong to a lineage of leader epochs; which lineage is the right one is decided elsewhere.

An epoch has one leader, so an epoch and an offset name one record, whoever copied it. A segment can hold more than the
lineage: what a replica had written before its log was truncated, or what was deleted from the front of the log since.
"""

from __future__ import annotations

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.values import RemoteLogSegmentMetadata


def is_lineage_of(lineage: LeaderEpochs, segment: RemoteLogSegmentMetadata) -> bool:
    """Whether it says of all the segment's offsets the same as the segment, from where it begins.

    That may be within the segment: when records are deleted, a leader's epochs are cut at the log start, while batches
    keep theirs. Epochs without records are left out: they come and go with the leader that tells of them.
    """
    first = max(segment.start_offset, lineage.entries[0][1] if lineage else 0)
    told, known = (_with_records(one, first, segment.end_offset) for one in (lineage, segment.segment_leader_epochs))
    return bool(told) and told == known


def _with_records(epochs: LeaderEpochs, start: int, end: int) -> list[tuple[int, int]]:
    return [(epoch, first) for epoch, first, last in epochs.within(start, end).ranges(end) if first <= last]


def offsets_within(
    lineage: LeaderEpochs, segment: RemoteLogSegmentMetadata, *, stop_offset: int
) -> list[tuple[int, int]]:
    """Ascending (start, stop) runs of the segment's offsets that the lineage holds, where it ends before `stop_offset`.

    Of segments that a broker copied there is one run at most: logs that agree in an epoch agree in all before it.
    """
    spans = {epoch: (first, last + 1) for epoch, first, last in lineage.ranges(stop_offset - 1)}
    runs: list[tuple[int, int]] = []
    for epoch, first, last in segment.segment_leader_epochs.ranges(segment.end_offset):
        if epoch not in spans:
            continue
        start, stop = max(first, spans[epoch][0]), min(last + 1, spans[epoch][1])
        if start >= stop:
            continue
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return runs
