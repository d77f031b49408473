"""What scans found to be open at the end of a segment, so that the next plan scans no more than what came behind it.

Segments never change, and neither does what lies before one in its leader's log: whoever comes to the same end of the
same segment finds the same. Scanning is done in `open_transactions.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tiergate_client._fork_safety import ForkSafe
from tiergate_client.ids import SegmentId
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_client.values import TopicIdPartition

_MOST_PARTITIONS: Final = 256


@dataclass(frozen=True, slots=True)
class _Scan:
    segment_id: SegmentId
    stop_offset: int
    opened: dict[int, int]


class RememberedScans(ForkSafe):
    """The last scan of each of the partitions that were asked for last. Safe to use from many threads."""

    def __init__(self) -> None:
        super().__init__()
        self._scans: OrderedDict[TopicIdPartition, _Scan] = OrderedDict()

    def recall(self, history: PartitionHistory) -> tuple[dict[int, int], tuple[HistoryPiece, ...]]:
        """First offsets of open transactions by producer, and the pieces that are not yet considered there."""
        with self.lock:
            scan = self._scans.get(history.partition)
            if scan is not None:
                self._scans.move_to_end(history.partition)
        if scan is not None:
            for number, piece in enumerate(history.pieces, 1):
                if (piece.segment.segment_id, piece.stop_offset) == (scan.segment_id, scan.stop_offset):
                    return dict(scan.opened), history.pieces[number:]
        return {}, history.pieces

    def keep(self, history: PartitionHistory, opened: dict[int, int]) -> None:
        """What is open at the history's end. With a hole that is not certain, and is forgotten at once."""
        if history.holes(history.start_offset, history.stop_offset):
            return
        last = history.pieces[-1]
        with self.lock:
            self._scans[history.partition] = _Scan(last.segment.segment_id, last.stop_offset, dict(opened))
            self._scans.move_to_end(history.partition)
            if len(self._scans) > _MOST_PARTITIONS:
                self._scans.popitem(last=False)

    def forget(self) -> None:
        with self.lock:
            self._scans.clear()


REMEMBERED_SCANS: Final = RememberedScans()
