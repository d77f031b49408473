"""Which transactions are open at the end of a history; what a reader may see of them is decided elsewhere.

A segment's producer snapshot is the state at its end. Where the last segments were stored without one that can be read,
all batches behind the last snapshot are read; without any snapshot, those of the whole history, once.
Memory is bounded by the number of producers with an open transaction.
"""

from __future__ import annotations

import logging
from typing import Final

import numpy as np

from tiergate_client.batch_layout import TRANSACTIONAL
from tiergate_client.errors import StoredDataCorrupt, TiergateError
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_format import ControlType
from tiergate_client.records.batch_headers import BatchHeader
from tiergate_client.records.header_scan import scan_headers
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_client.records.positions import located_range
from tiergate_client.records.producer_snapshot import ProducerSnapshot
from tiergate_client.records.remembered_scans import REMEMBERED_SCANS
from tiergate_client.records.segment_indexes import offset_indexes, parsed_if_there
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata

_SNAPSHOTS_AT_ONCE: Final = 16

_logger = logging.getLogger(__name__)


def open_transactions(history: PartitionHistory, storage: RemoteStorage) -> dict[int, int]:
    """The first offset of each, by its producer."""
    opened, behind = REMEMBERED_SCANS.recall(history)
    told = _last_snapshot(behind, storage)
    if told is not None:
        opened, behind = told
    for piece in behind:
        _follow(piece, storage, opened)
    if behind:
        REMEMBERED_SCANS.keep(history, opened)
    return opened


def _last_snapshot(
    pieces: tuple[HistoryPiece, ...], storage: RemoteStorage
) -> tuple[dict[int, int], tuple[HistoryPiece, ...]] | None:
    """What was open at the end of the last piece that tells, and the pieces behind it; None when none tells.

    The snapshot of a segment that is read in part is of what follows that part, and may be of another leader's log.
    """
    stop, at_once = len(pieces), 1
    while stop:
        begin = max(0, stop - at_once)
        told = [number for number in range(begin, stop) if pieces[number].is_whole_at_its_end]
        segments = [pieces[number].segment for number in told]
        answers = storage.fetch_indexes([IndexQuestion(one, SegmentFile.PRODUCER_SNAPSHOT) for one in segments])
        for number, segment, answer in reversed(list(zip(told, segments, answers, strict=True))):
            snapshot = _snapshot(segment, answer)
            if snapshot is not None:
                return _open_in(snapshot), pieces[number + 1 :]
        stop, at_once = begin, _SNAPSHOTS_AT_ONCE
    return None


def _snapshot(segment: RemoteLogSegmentMetadata, answer: bytes | TiergateError) -> ProducerSnapshot | None:
    """None also for one that was damaged when it was stored: a broker drops such a file, and takes an older one."""
    try:
        return parsed_if_there(segment, SegmentFile.PRODUCER_SNAPSHOT, answer, ProducerSnapshot.parse)
    except StoredDataCorrupt as error:
        if error is answer:
            raise
        _logger.warning("%s Going by what is stored before it instead.", error.message)
        return None


def _open_in(snapshot: ProducerSnapshot) -> dict[int, int]:
    producers = snapshot.producers
    return {one.producer_id: one.transaction_first_offset for one in producers if one.transaction_first_offset >= 0}


def _follow(piece: HistoryPiece, storage: RemoteStorage, opened: dict[int, int]) -> None:
    """Takes the piece's batches into account."""
    (index,) = offset_indexes(storage, [piece.segment])
    for scanned in scan_headers(located_range(piece, index), storage):
        for number in np.flatnonzero(scanned.fields["attributes"] & TRANSACTIONAL).tolist():
            _take(scanned[number], opened)


def _take(batch: BatchHeader, opened: dict[int, int]) -> None:
    if not batch.is_control:
        opened.setdefault(batch.producer_id, batch.base_offset)
    elif batch.control_type in (ControlType.ABORT, ControlType.COMMIT):
        opened.pop(batch.producer_id, None)
