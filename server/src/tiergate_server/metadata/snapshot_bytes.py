"""Reads numbers, names and columns out of a snapshot's bytes, never beyond their end.

What they mean is the codec's business.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

from tiergate_server.metadata.snapshot import SnapshotRefused

_U8 = struct.Struct(">B")
_U32 = struct.Struct(">I")


class SnapshotBytes:
    """What is left to read. Raises SnapshotRefused where the bytes do not hold what they say."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise SnapshotRefused(
                f"the snapshot announces {size} bytes where {len(self._data) - self._position} follow"
            )
        taken = bytes(self._data[self._position : end])
        self._position = end
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def count(self) -> int:
        """How many items are said to follow. Nothing makes room for them before they are taken."""
        (count,) = self.unpack(_U32)
        return int(count)

    def name(self) -> str:
        (size,) = self.unpack(_U8)
        try:
            return self.take(size).decode("ascii")
        except UnicodeDecodeError:
            raise SnapshotRefused("a topic name of the snapshot is not ASCII") from None

    def numbers(self, kind: str, count: int) -> tuple[int, ...]:
        """A column of `count` numbers of one kind of struct's."""
        return self.unpack(struct.Struct(f">{count}{kind}"))

    def pieces(self, sizes: tuple[int, ...]) -> list[bytes]:
        """Bytes one behind the other, each of its own size."""
        column = self.take(sum(sizes))
        return [column[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]

    def ids(self, count: int) -> list[bytes]:
        return list(_sixteens(self.take(16 * count)))

    def require_end(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise SnapshotRefused(f"{left} bytes follow behind the end of the snapshot")


def _sixteens(column: bytes) -> Iterator[bytes]:
    return (column[start : start + 16] for start in range(0, len(column), 16))
