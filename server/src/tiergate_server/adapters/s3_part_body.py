"""The body of a part that is sent while its bytes are still being received. It knows nothing of requests or keys.

One thread appends, another reads. What was appended is kept until the part is answered, so that a request that failed
can be sent again; that one waits until the part is whole, since by then there is nothing left to win by streaming.
"""

from __future__ import annotations

import os
import threading

# Messages hold up to two blocks of a log, and a little beside them; what else a sender puts in must not stay in memory.
_MOST_KEPT_FOR_ONE = 3


class PartDropped(Exception):
    """The part was given up: whoever reads it has to stop."""


class PartBody:
    """A file to read, as far as an HTTP client needs one, of which the size is known from the beginning."""

    def __init__(self, size_bytes: int, *, window_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._window_bytes = window_bytes
        self._changed = threading.Condition()
        self._pieces: list[bytes | memoryview] = []
        self._received_bytes = 0
        self._taken_bytes = 0
        self._piece = 0
        self._place_in_piece = 0
        self._is_streamed = True
        self._is_dropped = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def missing_bytes(self) -> int:
        return self._size_bytes - self._received_bytes

    def append(self, data: bytes | memoryview) -> None:
        """Blocks while the window is full, unless nobody will take bytes out of it before the part is whole."""
        with self._changed:
            while self._is_streamed and not self._is_dropped and self._is_full:
                self._changed.wait()
            if not self._is_dropped:
                self._pieces.append(_kept(data))
                self._received_bytes += len(data)
            self._changed.notify_all()

    def drop(self) -> None:
        """Gives the part up: appending has no effect any more, reading raises PartDropped."""
        with self._changed:
            self._is_dropped = True
            self._pieces.clear()
            self._changed.notify_all()

    def rewind_when_whole(self) -> None:
        """For another attempt: waits until every byte is there. Raises PartDropped."""
        with self._changed:
            self._is_streamed = False
            self._changed.notify_all()
            while not self._is_dropped and self.missing_bytes:
                self._changed.wait()
            self._require_kept()
        self.seek(0)

    def read(self, size: int = -1) -> memoryview:
        """The next bytes, at most `size`, at least one before the end. Raises PartDropped."""
        with self._changed:
            while not self._is_dropped and self._taken_bytes == self._received_bytes and self.missing_bytes:
                self._changed.wait()
            self._require_kept()
            if self._taken_bytes == self._size_bytes:
                return memoryview(b"")
            piece = self._pieces[self._piece]
            end = len(piece) if size < 0 else min(len(piece), self._place_in_piece + size)
            data = memoryview(piece)[self._place_in_piece : end]
            self._place_in_piece = end
            if end == len(piece):
                self._piece, self._place_in_piece = self._piece + 1, 0
            self._taken_bytes += len(data)
            self._changed.notify_all()
            return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if (offset, whence) != (0, os.SEEK_SET):
            raise ValueError("the body of a part can only be read from its beginning: seek to 0")
        with self._changed:
            self._piece = self._place_in_piece = self._taken_bytes = 0
        return 0

    def tell(self) -> int:
        return self._taken_bytes

    @property
    def _is_full(self) -> bool:
        return self._received_bytes - self._taken_bytes >= self._window_bytes

    def _require_kept(self) -> None:
        if self._is_dropped:
            raise PartDropped("the part was given up while it was sent")


def _kept(data: bytes | memoryview) -> bytes | memoryview:
    """The same bytes, which nobody can change: a view of a received message stays as it is, and the message with it."""
    if isinstance(data, bytes):
        return data
    message = data.obj
    may_stay = isinstance(message, bytes) and len(message) <= _MOST_KEPT_FOR_ONE * len(data)
    return data if may_stay else bytes(data)
