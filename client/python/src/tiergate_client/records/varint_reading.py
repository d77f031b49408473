"""Reads zig-zag varints, one by one or of many records at once; the compiled loops have their own way.

Numbers may take more bytes than they need, but not more than their width allows, and never reach the end given.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

INT_BITS: Final = 32


class VarintTooLong(Exception):
    """A number, or what it measures, does not end within the bytes that are there."""


def read_bounded_varint(content: memoryview, at: int, end: int, *, bits: int = INT_BITS) -> tuple[int, int]:
    """The number and where it ends."""
    number = shift = 0
    while at < end:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> bits:
                break
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift >= bits:
            break
    raise VarintTooLong


def read_varints(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], *, bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The number at each place, where it ends, and whether it is sound; 0 where it is not."""
    raw = np.zeros(len(at), np.uint64)
    at = at.copy()
    is_sound = np.ones(len(at), np.bool_)
    going_on = np.arange(len(at))
    for shift in range(0, bits, 7):
        is_inside = at[going_on] < ends[going_on]
        if not is_inside.all():
            is_sound[going_on[~is_inside]] = False
            going_on = going_on[is_inside]
        byte = data[at[going_on]].astype(np.uint64)
        at[going_on] += 1
        if shift + 7 > bits:
            is_sound[going_on[byte >> np.uint64(bits - shift) != 0]] = False
        raw[going_on] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        going_on = going_on[byte >= 0x80]
        if not going_on.size:
            break
    is_sound[going_on] = False
    raw[~is_sound] = 0
    one = np.uint64(1)
    return (raw >> one).view(np.int64) ^ -(raw & one).view(np.int64), at, is_sound
