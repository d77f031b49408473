"""Memory for blocks that are handed out, taken back as soon as nobody looks at them any more. It knows no bytes."""

from __future__ import annotations

from collections import deque

_MOST_KEPT = 3
"""One that is being filled, one that the caller holds, one that it has just let go of."""


class BlockBuffers:
    """Buffers of one size. A new mebibyte for every block costs a tenth of the time that it takes to receive it.

    A bytearray that somebody has a view of refuses to change its size: that tells whether it may be filled again,
    however the caller passed the view on. Used by one thread at a time.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._kept: deque[bytearray] = deque(maxlen=_MOST_KEPT)

    def take(self) -> bytearray:
        """One that nobody has a view of. What it held is still in it."""
        for buffer in self._kept:
            try:
                buffer.pop()
            except BufferError:
                continue
            buffer.append(0)
            return buffer
        buffer = bytearray(self._size_bytes)
        self._kept.append(buffer)
        return buffer
