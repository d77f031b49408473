"""Which offsets of a segment belong to a lineage of leader epochs; which lineage is the right one is decided elsewhere.

An epoch has one leader, so an epoch and an offset name one record, whoever copied it. A segment can hold more than the
lineage: what a replica had written before its log was truncated, or what was deleted from the front of the log since.
"""

from __future__ import annotations

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.values import RemoteLogSegmentMetadata


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
