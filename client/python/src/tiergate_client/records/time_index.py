"""A segment's time index: from which offset on to look for a timestamp. Scanning from there is not done here.

    index = { timestamp[i64] offset-minus-base[i32] }

Big-endian. An entry (t, o) says that no record up to offset o has a timestamp above t.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, Self

from tiergate_client.records.index_errors import require_whole_entries, require_zeros

_ENTRY: Final = struct.Struct(">qi")
NO_TIMESTAMP_MS: Final = -1


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """Timestamps and offsets of the entries; neither ever falls."""

    base_offset: int
    timestamps_ms: tuple[int, ...]
    offsets: tuple[int, ...]

    @classmethod
    def parse(cls, content: bytes, *, base_offset: int) -> Self:
        """Raises StoredDataCorrupt. Zeros behind the entries, as in the index of an active segment, are left out."""
        require_whole_entries("time index", content, _ENTRY.size)
        timestamps: list[int] = []
        offsets: list[int] = []
        for timestamp, relative in _ENTRY.iter_unpack(content):
            offset = base_offset + relative
            if timestamps and (timestamp < timestamps[-1] or offset < offsets[-1]):
                require_zeros("time index", content, len(offsets) * _ENTRY.size)
                break
            timestamps.append(timestamp)
            offsets.append(offset)
        return cls(base_offset, tuple(timestamps), tuple(offsets))

    def floor(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry whose timestamp is not above this one, as (timestamp, offset); (-1, base) below the first."""
        number = bisect_right(self.timestamps_ms, timestamp_ms)
        return (
            (self.timestamps_ms[number - 1], self.offsets[number - 1])
            if number
            else (NO_TIMESTAMP_MS, self.base_offset)
        )
