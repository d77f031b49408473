"""Which bytes of a segment hold a run of its offsets, and where such a run can be cut; nothing is fetched here.

An entry (o, p) of the offset index says: some batches were appended together from byte p on, and the last of them ends
with offset o. So before p every offset is below o, and behind the entry's batches every one is above o. Where exactly
they end is not known, only that it is not behind the next entry's byte.

Offsets of a batch are not under its checksum, and are checked against those of its neighbours: a range holds a batch
before the first one that is wanted, and one behind the last, unless the segment begins or ends there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tiergate_client.records.history import HistoryPiece
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.read_split import SegmentRange


def whole_range(piece: HistoryPiece) -> SegmentRange:
    """All of the segment's bytes, whatever part of its offsets is wanted."""
    return SegmentRange(piece.segment, piece.start_offset, piece.stop_offset, 0, piece.segment.segment_size_bytes)


def located_range(piece: HistoryPiece, index: OffsetIndex) -> SegmentRange:
    """The fewest bytes that surely hold every batch with one of the offsets, and the neighbours of those."""
    return SegmentRange(
        piece.segment,
        piece.start_offset,
        piece.stop_offset,
        index.floor(piece.start_offset - 1),
        _position_behind(index, piece.stop_offset - 1, piece.segment.segment_size_bytes),
    )


def cut_ranges(
    piece: HistoryPiece, index: OffsetIndex, *, most_bytes: int, most_offsets: int | None = None
) -> Iterator[SegmentRange]:
    """The piece in even parts, whose offsets follow one another: none of more offsets, and of more bytes only where
    the index has no entry.

    Parts are cut behind an entry's last offset, which ends a batch, so that as a rule each batch is wanted by one of
    them; where the batches of one entry have more offsets than a part may, several parts read the same bytes. The bytes
    of neighbours overlap by the batches of some entries: a part that began with the next byte position would not know
    its first offset.
    """
    for part in _parts_between_entries(piece, index, most_bytes=most_bytes, most_offsets=most_offsets):
        step = _even_part(part.stop_offset - part.start_offset, most_offsets)
        for start in range(part.start_offset, part.stop_offset, step):
            stop = min(start + step, part.stop_offset)
            yield located_range(HistoryPiece(piece.segment, start, stop), index)


def _parts_between_entries(
    piece: HistoryPiece, index: OffsetIndex, *, most_bytes: int, most_offsets: int | None
) -> Iterator[HistoryPiece]:
    start = piece.start_offset
    while True:
        rest = located_range(HistoryPiece(piece.segment, start, piece.stop_offset), index)
        part_bytes = _even_part(rest.size_bytes, most_bytes)
        part_offsets = _even_part(rest.stop_offset - start, most_offsets)
        if part_bytes == rest.size_bytes and part_offsets == rest.stop_offset - start:
            break
        entry = min(
            bisect_right(index.positions, rest.start_position + part_bytes) - 3,
            bisect_right(index.offsets, start + part_offsets - 1) - 1,
        )
        # An entry's batches are not cut here: those that are too large for a part are one.
        entry = max(entry, bisect_left(index.offsets, start))
        if entry >= len(index.offsets) or index.offsets[entry] + 1 >= piece.stop_offset:
            break
        stop = index.offsets[entry] + 1
        yield HistoryPiece(piece.segment, start, stop)
        start = stop
    yield HistoryPiece(piece.segment, start, piece.stop_offset)


def _even_part(whole: int, most: int | None) -> int:
    """The size of equal parts of which none is above `most`."""
    if most is None or whole <= most:
        return whole
    return -(-whole // -(-whole // most))


def _position_behind(index: OffsetIndex, offset: int, size_bytes: int) -> int:
    """A border of batches behind the one with this offset and the next one."""
    following = bisect_left(index.offsets, offset) + 2
    return index.positions[following] if following < len(index.positions) else size_bytes
