"""Ids in the order of their offsets, in a few bytes each: two parallel sequences and binary search.

What the offsets and ids mean is not known here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice

_FEW = 64


class OffsetOrder:
    """(offset, id) pairs, ascending, each pair once.

    Offsets mostly come in ascending order and mostly leave from the front, as retention removes the oldest: both are
    cheap. Anything else moves the pairs behind it.
    """

    __slots__ = ("_first", "_ids", "_offsets")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._ids: list[bytes] = []
        self._first = 0  # what stands before has left; it is cut off when it is half of all

    def __len__(self) -> int:
        return len(self._ids) - self._first

    def __iter__(self) -> Iterator[bytes]:
        return islice(self._ids, self._first, None)

    @classmethod
    def of(cls, offsets: array[int], raw_ids: list[bytes]) -> OffsetOrder:
        """The pairs of both, which are ascending already and belong to the order from now on."""
        order = cls()
        order._offsets = offsets
        order._ids = raw_ids
        return order

    def copy(self) -> OffsetOrder:
        return OffsetOrder.of(self.offsets(), self._ids[self._first :])

    def offsets(self) -> array[int]:
        """The offsets of all pairs, ascending."""
        return self._offsets[self._first :]

    def add(self, offset: int, raw_id: bytes) -> None:
        if not len(self) or offset > self._offsets[-1]:
            self._offsets.append(offset)
            self._ids.append(raw_id)
            return
        position = self._position(offset, raw_id)
        if not self._is_at(position, offset, raw_id):
            self._offsets.insert(position, offset)
            self._ids.insert(position, raw_id)

    def discard(self, offset: int, raw_id: bytes) -> None:
        """Removes a pair. One that is not there is fine."""
        position = self._position(offset, raw_id)
        if not self._is_at(position, offset, raw_id):
            return
        if position == self._first:
            self._remove_first()
        else:
            del self._offsets[position]
            del self._ids[position]

    def kept_id(self, offset: int, raw_id: bytes) -> bytes:
        """The object that is kept for the id of a pair that is there, so that it is in memory only once."""
        return self._ids[self._position(offset, raw_id)]

    def at(self, offset: int) -> bytes | None:
        """The first id at exactly this offset."""
        position = bisect_left(self._offsets, offset, self._first)
        is_there = position < len(self._offsets) and self._offsets[position] == offset
        return self._ids[position] if is_there else None

    def floor(self, offset: int) -> bytes | None:
        """The last id at this offset or below."""
        position = bisect_right(self._offsets, offset, self._first) - 1
        return self._ids[position] if position >= self._first else None

    def last_offset(self) -> int | None:
        return self._offsets[-1] if len(self) else None

    def remove_last(self) -> None:
        self._offsets.pop()
        self._ids.pop()

    def first_after(self, after: tuple[int, bytes] | None, *, limit: int) -> list[bytes]:
        """At most `limit` ids in order, of the pairs strictly behind `after`."""
        position = self._first
        if after is not None:
            position = self._position(*after)
            if self._is_at(position, *after):
                position += 1
        return self._ids[position : position + limit]

    def _position(self, offset: int, raw_id: bytes) -> int:
        """Where the pair is, or would be."""
        low = bisect_left(self._offsets, offset, self._first)
        high = bisect_right(self._offsets, offset, low)
        return bisect_left(self._ids, raw_id, low, high)

    def _is_at(self, position: int, offset: int, raw_id: bytes) -> bool:
        return position < len(self._ids) and self._offsets[position] == offset and self._ids[position] == raw_id

    def _remove_first(self) -> None:
        self._ids[self._first] = b""
        self._first += 1
        if self._first > _FEW and self._first * 2 > len(self._ids):
            del self._offsets[: self._first]
            del self._ids[: self._first]
            self._first = 0
