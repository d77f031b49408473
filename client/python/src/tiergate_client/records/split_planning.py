"""Divides pieces of a history among splits: large segments are cut, small neighbours are joined.

Which offsets are to be read is decided in `read_plan.py`; which transactions a split leaves out is added there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tiergate_client.errors import InvalidField
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import HistoryPiece
from tiergate_client.records.positions import cut_ranges, whole_range
from tiergate_client.records.read_split import SegmentRange
from tiergate_client.records.segment_indexes import offset_indexes


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """What a split holds at most; of more bytes where a segment can not be cut."""

    most_bytes: int
    most_offsets: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("split_bytes", self.most_bytes), ("max_records", self.most_offsets)):
            if most is not None and most < 1:
                raise InvalidField.of(name, f"{most} leaves nothing to read: name 1 or more")

    def allow(self, *, size_bytes: int, offsets: int) -> bool:
        return size_bytes <= self.most_bytes and (self.most_offsets is None or offsets <= self.most_offsets)


def planned_ranges(
    pieces: Sequence[HistoryPiece], storage: RemoteStorage, *, limits: SplitLimits
) -> Iterator[SegmentRange]:
    """The bytes of each piece. Indexes are fetched of those segments alone that are cut or read in part."""
    indexes = offset_indexes(storage, [piece.segment for piece in pieces if _needs_index(piece, limits)])
    for piece in pieces:
        if not _needs_index(piece, limits):
            ranges: Iterable[SegmentRange] = (whole_range(piece),)
        else:
            ranges = cut_ranges(piece, next(indexes), most_bytes=limits.most_bytes, most_offsets=limits.most_offsets)
        yield from (one for one in ranges if one.size_bytes)


def joined(ranges: Iterable[SegmentRange], *, limits: SplitLimits) -> Iterator[tuple[SegmentRange, ...]]:
    """Neighbours in one split as long as the limits allow it.

    Never over a gap: clients that decode raw batches follow markers, and would take what follows an abort marker that
    they are not given for aborted.
    """
    run: list[SegmentRange] = []
    size_bytes = 0
    for one in ranges:
        size_bytes += one.size_bytes
        if run and not (
            run[-1].stop_offset == one.start_offset
            and limits.allow(size_bytes=size_bytes, offsets=one.stop_offset - run[0].start_offset)
        ):
            yield tuple(run)
            run, size_bytes = [], one.size_bytes
        run.append(one)
    if run:
        yield tuple(run)


def _needs_index(piece: HistoryPiece, limits: SplitLimits) -> bool:
    segment = piece.segment
    is_whole = piece.start_offset == segment.start_offset and piece.is_whole_at_its_end
    offsets = piece.stop_offset - piece.start_offset
    return not (is_whole and limits.allow(size_bytes=segment.segment_size_bytes, offsets=offsets))
