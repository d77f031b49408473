"""About how many splits a plan would have, told from metadata alone: nothing is fetched or planned here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tiergate_client.errors import LimitExceeded
from tiergate_client.records.history import HistoryPiece

# For fewer bytes, a segment is cut between batches, and none is shorter than its header.
_SMALLEST_BATCH_BYTES: Final = 61


def require_few_splits(
    pieces: Iterable[HistoryPiece], *, split_bytes: int, split_records: int | None, most: int
) -> None:
    """Raises LimitExceeded. A part of a segment counts with all of its bytes, unless its offsets are fewer.

    A plan has fewer splits where few places of a log are indexed, and up to three times as many where a split is hardly
    longer than what lies between two of them.
    """
    size_bytes, offsets, cuts = 0, 0, 0
    for piece in pieces:
        piece_bytes, piece_offsets = piece.segment.segment_size_bytes, piece.stop_offset - piece.start_offset
        size_bytes += piece_bytes
        offsets += piece_offsets if piece_bytes else 0
        cuts += min(piece_bytes // _SMALLEST_BATCH_BYTES, piece_offsets)
    by_bytes = min(size_bytes // split_bytes, cuts)
    wanted = min(by_bytes + (0 if split_records is None else offsets // split_records), offsets)
    if wanted > most:
        raise LimitExceeded.of(
            "plan_splits",
            most,
            f"{size_bytes} bytes with {offsets} offsets may take {wanted} splits, and a plan has {most} at "
            f"most: ask for larger splits, or for fewer offsets at once",
        )
