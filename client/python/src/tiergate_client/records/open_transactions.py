"""Which transactions are open at the end of a history; what a reader may see of them is decided elsewhere.

A segment's producer snapshot is the state at its end. Where the last segments were stored without one, the headers of
all batches behind the last snapshot are read; without any snapshot, those of the whole history. Memory is bounded by
the number of producers with an open transaction.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiergate_client.batch_layout import TRANSACTIONAL
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_format import ControlType
from tiergate_client.records.batch_headers import BatchHeader
from tiergate_client.records.header_scan import scan_headers
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_client.records.positions import located_range
from tiergate_client.records.producer_snapshot import ProducerSnapshot
from tiergate_client.records.segment_indexes import offset_indexes, parsed_if_there
from tiergate_client.segment_files import IndexQuestion, SegmentFile

_SNAPSHOTS_AT_ONCE: Final = 16


def open_transactions(history: PartitionHistory, storage: RemoteStorage) -> dict[int, int]:
    """The first offset of each, by its producer."""
    opened, behind = _last_snapshot(history, storage)
    for piece in behind:
        _follow(piece, storage, opened)
    return opened


def _last_snapshot(
    history: PartitionHistory, storage: RemoteStorage
) -> tuple[dict[int, int], tuple[HistoryPiece, ...]]:
    """What was open at the end of the last piece that tells, and the pieces behind it.

    The snapshot of a segment that is read in part is of what follows that part, and may be of another leader's log.
    """
    stop, at_once = len(history.pieces), 1
    while stop:
        begin = max(0, stop - at_once)
        told = [number for number in range(begin, stop) if history.pieces[number].is_whole_at_its_end]
        segments = [history.pieces[number].segment for number in told]
        answers = storage.fetch_indexes([IndexQuestion(one, SegmentFile.PRODUCER_SNAPSHOT) for one in segments])
        for number, segment, answer in reversed(list(zip(told, segments, answers, strict=True))):
            snapshot = parsed_if_there(segment, SegmentFile.PRODUCER_SNAPSHOT, answer, ProducerSnapshot.parse)
            if snapshot is not None:
                return _open_in(snapshot), history.pieces[number + 1 :]
        stop, at_once = begin, _SNAPSHOTS_AT_ONCE
    return {}, history.pieces


def _open_in(snapshot: ProducerSnapshot) -> dict[int, int]:
    producers = snapshot.producers
    return {one.producer_id: one.transaction_first_offset for one in producers if one.transaction_first_offset >= 0}


def _follow(piece: HistoryPiece, storage: RemoteStorage, opened: dict[int, int]) -> None:
    """Takes the piece's batches into account."""
    (index,) = offset_indexes(storage, [piece.segment])
    for scanned, is_inside in scan_headers(located_range(piece, index), storage):
        is_transactional = scanned.fields["attributes"] & TRANSACTIONAL != 0
        for number in np.flatnonzero(is_transactional & is_inside).tolist():
            _take(scanned[number], opened)


def _take(batch: BatchHeader, opened: dict[int, int]) -> None:
    if not batch.is_control:
        opened.setdefault(batch.producer_id, batch.base_offset)
    elif batch.control_type in (ControlType.ABORT, ControlType.COMMIT):
        opened.pop(batch.producer_id, None)
