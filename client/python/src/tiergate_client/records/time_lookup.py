"""Finds the first offset at or after a time, as Kafka's offsetsForTimes does; reading from there is not done here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches
from tiergate_client.records.decoding import decode_batches
from tiergate_client.records.header_scan import scan_headers
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.positions import cut_ranges
from tiergate_client.records.read_bounds import missing_within
from tiergate_client.records.read_split import SegmentRange
from tiergate_client.records.segment_indexes import parsed, parsed_offset_index
from tiergate_client.records.time_index import TimeIndex
from tiergate_client.records.time_pruning import first_offset_to_look_at, is_older
from tiergate_client.segment_files import IndexQuestion, SegmentFile

_FIRST_LOOK_BYTES: Final = 64 * 1024
_LOOKS_GROW_BY: Final = 8


@dataclass(frozen=True, slots=True)
class TimestampedOffset:
    """A record's place in the log and in time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_offset_by_time(
    history: PartitionHistory,
    storage: RemoteStorage,
    timestamp_ms: int,
    *,
    start_offset: int = 0,
    fail_on_data_loss: bool = True,
) -> TimestampedOffset | None:
    """The first record in the order of the log that is from this time or later, from `start_offset` on.

    Timestamps need not ascend, so later records may be older. Control records count, as they do for Kafka; aborted ones
    too. None when no record is that late. It costs two indexes of each segment that may hold such a record, and the
    bytes behind what they point to.

    Raises OffsetOutOfRange when the record is in the piece behind a hole of the history, unless data loss is accepted:
    an earlier one may have been in the hole. A hole before a piece that is all older is taken for older too, as times
    ascend from segment to segment as a rule: who asks for the last hour shall not fail for a hole of last month.
    Raises CorruptBatch for a damaged batch on the way.
    """
    behind = max(start_offset, history.start_offset)
    for piece in history.within(start_offset, history.stop_offset):
        if not is_older(piece.segment, timestamp_ms):
            found = _find_in(piece, storage, timestamp_ms)
            if found is not None:
                missing_within(history, behind, piece.start_offset, fail_on_data_loss=fail_on_data_loss)
                return found
        behind = piece.stop_offset
    return None


def _find_in(piece: HistoryPiece, storage: RemoteStorage, timestamp_ms: int) -> TimestampedOffset | None:
    segment = piece.segment
    time_answer, offset_answer = storage.fetch_indexes(
        [IndexQuestion(segment, SegmentFile.TIME_INDEX), IndexQuestion(segment, SegmentFile.OFFSET_INDEX)]
    )
    parse = partial(TimeIndex.parse, base_offset=segment.start_offset)
    time_index = parsed(segment, SegmentFile.TIME_INDEX, time_answer, parse)
    offset_index = parsed_offset_index(segment, offset_answer)
    start = max(piece.start_offset, first_offset_to_look_at(time_index, timestamp_ms))
    if start >= piece.stop_offset:
        return None
    for wanted in _looks(HistoryPiece(segment, start, piece.stop_offset), offset_index):
        for scanned in scan_headers(wanted, storage):
            is_late = (scanned.fields["max_timestamp_ms"] >= timestamp_ms) & (scanned.fields["record_count"] > 0)
            for number in np.flatnonzero(is_late).tolist():
                found = _first_in(scanned, number, wanted, timestamp_ms)
                if found is not None:
                    return found
    return None


def _looks(piece: HistoryPiece, index: OffsetIndex) -> Iterator[SegmentRange]:
    """The piece in growing parts: the record mostly is in the first bytes, and a stream sends more than is taken."""
    most_bytes = _FIRST_LOOK_BYTES
    start = piece.start_offset
    while start < piece.stop_offset:
        rest = HistoryPiece(piece.segment, start, piece.stop_offset)
        part = next(cut_ranges(rest, index, most_bytes=most_bytes))
        yield part
        start = part.stop_offset
        most_bytes *= _LOOKS_GROW_BY


def _first_in(
    scanned: ScannedBatches, number: int, wanted: SegmentRange, timestamp_ms: int
) -> TimestampedOffset | None:
    batch = scanned[number]
    for offset, timestamp in _records(scanned, batch, wanted):
        if timestamp >= timestamp_ms and wanted.start_offset <= offset < wanted.stop_offset:
            return TimestampedOffset(offset, timestamp, batch.leader_epoch)
    return None


def _records(scanned: ScannedBatches, batch: BatchHeader, wanted: SegmentRange) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each. A control batch, which is not decoded, has one record."""
    if batch.is_control:
        yield batch.base_offset, batch.max_timestamp_ms
        return
    begin = batch.position - scanned.base_position
    content = scanned.buffer[begin : begin + batch.size_bytes]
    segment = str(wanted.segment.segment_id)
    for decoded in decode_batches(
        content,
        columns=("offset", "timestamp"),
        check_crc=False,
        base_position=batch.position,
        segment=segment,
        is_whole=True,
    ):
        yield from zip(decoded["offset"].to_pylist(), decoded["timestamp"].to_pylist(), strict=True)
