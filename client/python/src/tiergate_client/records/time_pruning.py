"""Leaves out what is older than a reader wants, as far as metadata and time indexes tell; rows are not looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import HistoryPiece
from tiergate_client.records.segment_indexes import parsed
from tiergate_client.records.time_index import NO_TIMESTAMP_MS, TimeIndex
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata


def is_older(segment: RemoteLogSegmentMetadata, timestamp_ms: int) -> bool:
    """Whether every record of the segment surely is. One without a timestamp may hold anything."""
    return segment.max_timestamp_ms != NO_TIMESTAMP_MS and segment.max_timestamp_ms < timestamp_ms


def first_offset_to_look_at(index: TimeIndex, timestamp_ms: int) -> int:
    """All records below it are older.

    An entry covers its own offset too; taking it again costs a batch, and bears with the zeros that fill the index of
    an active segment.
    """
    return index.floor(timestamp_ms - 1)[1]


def not_older(pieces: Sequence[HistoryPiece], storage: RemoteStorage, *, min_timestamp_ms: int) -> list[HistoryPiece]:
    """Pieces without those, and beginnings of those, that are older.

    Only where a run of pieces begins is the time index asked: records come roughly in the order of time, so that behind
    the beginning it would say nothing.
    """
    kept = [piece for piece in pieces if not is_older(piece.segment, min_timestamp_ms)]
    ends = {piece.stop_offset for piece in kept}
    begins = [piece for piece in kept if piece.start_offset not in ends]
    answers = storage.fetch_indexes([IndexQuestion(piece.segment, SegmentFile.TIME_INDEX) for piece in begins])
    starts = {}
    for piece, answer in zip(begins, answers, strict=True):
        parse = partial(TimeIndex.parse, base_offset=piece.segment.start_offset)
        index = parsed(piece.segment, SegmentFile.TIME_INDEX, answer, parse)
        starts[piece] = max(piece.start_offset, first_offset_to_look_at(index, min_timestamp_ms))
    clipped = (HistoryPiece(one.segment, starts.get(one, one.start_offset), one.stop_offset) for one in kept)
    return [piece for piece in clipped if piece.start_offset < piece.stop_offset]
