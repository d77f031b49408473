"""Entries of a segment's sparse indexes and of its transaction index.

    offset index      = { offset-minus-base[i32] position[i32] }
    time index        = { timestamp[i64] offset-minus-base[i32] }
    transaction index = { version[i16]=0 producer-id[i64] first-offset[i64] last-offset[i64] last-stable-offset[i64] }

Big-endian. Of a segment with base 50, `00000005 00001000` says: a batch that ends with offset 55 begins at byte 4096.
When entries are due is not decided here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_TRANSACTION = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """Its entry stands in the index of the segment that holds the abort marker, which is its last offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return _ABORTED_TRANSACTION.pack(
            0, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset
        )


def encode_offset_entry(*, base_offset: int, offset: int, position: int) -> bytes:
    return _OFFSET_ENTRY.pack(offset - base_offset, position)


def encode_time_entry(*, base_offset: int, timestamp_ms: int, offset: int) -> bytes:
    return _TIME_ENTRY.pack(timestamp_ms, offset - base_offset)
