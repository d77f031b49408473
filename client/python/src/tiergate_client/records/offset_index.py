"""A segment's offset index: from which byte on to look for an offset. Scanning from there is not done here.

    index = { offset-minus-base[i32] position[i32] }

Big-endian. Of a segment with base 50, `00000005 00001000` says: what begins at byte 4096 ends with offset 55. An entry
is of one or more batches that were appended together: its offset is the last of them, its position the first byte.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, Self

from tiergate_client.records.index_errors import require_whole_entries, require_zeros

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
        offsets: list[int] = []
        positions: list[int] = []
        for relative, position in _ENTRY.iter_unpack(content):
            offset = base_offset + relative
            if relative < 0 or position < 0 or (offsets and (offset <= offsets[-1] or position <= positions[-1])):
                require_zeros("offset index", content, len(offsets) * _ENTRY.size)
                break
            offsets.append(offset)
            positions.append(position)
        return cls(tuple(offsets), tuple(positions))

    def floor(self, offset: int) -> int:
        """The position from which on the batch with this offset is found; 0 below the first entry."""
        number = bisect_right(self.offsets, offset)
        return self.positions[number - 1] if number else 0
