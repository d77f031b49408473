"""A segment's offset index: from which byte on to look for an offset. Scanning from there is not done here.

    index = { offset-minus-base[i32] position[i32] }

Big-endian. Of a segment with base 50, `00000005 00001000` says: what begins at byte 4096 ends with offset 55. An entry
is of one or more batches that were appended together: its offset is the last of them, its position the first byte.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from tiergate_client.records.index_errors import require_whole_entries

_ENTRY: Final = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Offsets and positions of the entries, both ascending."""

    offsets: tuple[int, ...]
    positions: tuple[int, ...]

    @classmethod
    def parse(cls, content: bytes, *, base_offset: int) -> Self:
        """Raises StoredDataCorrupt. Zeros behind the entries, as in the index of an active segment, are left out."""
        require_whole_entries("offset index", content, _ENTRY.size)
        entries = list(_ascending(_ENTRY.iter_unpack(content)))
        return cls(tuple(base_offset + relative for relative, _ in entries), tuple(position for _, position in entries))

    def floor(self, offset: int) -> int:
        """The position from which on the batch with this offset is found; 0 below the first entry."""
        number = bisect_right(self.offsets, offset)
        return self.positions[number - 1] if number else 0

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry at this position or behind it: an upper bound of what lies before it."""
        number = bisect_left(self.positions, position)
        return self.offsets[number] if number < len(self.offsets) else None


def _ascending(entries: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Entries end where the offset stops to grow; the first may be of the base offset itself."""
    previous = -1
    for relative, position in entries:
        if relative <= previous or (previous >= 0 and position == 0):
            return
        yield relative, position
        previous = relative
