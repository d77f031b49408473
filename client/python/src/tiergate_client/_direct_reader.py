"""A run of a file in the store, read to its end over as many connections as it takes. Bytes are not verified here."""

from __future__ import annotations

import time
from typing import Final

from tiergate_client._direct_answer import Body, StoreOutOfReach, UrlRefused
from tiergate_client._direct_file import DirectFile
from tiergate_client._patience import Patience, may_pass
from tiergate_client.errors import Cancelled, DeadlineExceeded, TiergateError

_MOST_AT_ONCE: Final = 4 * 1024 * 1024
"""Between two looks at the deadline."""


class DirectReader:
    """The bytes [begin, end) of a file, in order. Goes on at its own position until nothing came for `patience_s`."""

    def __init__(self, file: DirectFile, *, begin: int, end: int, patience_s: float, deadline_s: float) -> None:
        self._file = file
        self._position = begin
        self._end = end
        self._patience = Patience(patience_s)
        self._deadline_s = deadline_s
        self._body: Body | None = None
        self._closed = False

    def fill(self, buffer: memoryview) -> None:
        """Raises StoreOutOfReach, and what DirectFile raises; Cancelled after `close`, also by another thread."""
        filled = 0
        self._patience.progressed()  # however long the caller took with what it has
        while filled < len(buffer):
            try:
                count = self._read(buffer[filled : filled + _MOST_AT_ONCE])
            except TiergateError as failure:
                if isinstance(failure, UrlRefused) or not may_pass(failure) or not self._patience.pause(failure):
                    raise
            else:
                filled += count
                if count:
                    self._patience.progressed()

    def close(self) -> None:
        self._closed = True
        if self._body is not None:
            self._body.close()

    def _read(self, buffer: memoryview) -> int:
        if time.monotonic() > self._deadline_s:
            raise DeadlineExceeded("the stream took longer than it may: give it more time, or read in smaller pieces")
        self._require_open()
        if self._body is None:
            self._body = self._file.open(self._position, self._end)
        body = self._body
        count = body.readinto(buffer)
        self._require_open()
        self._position += count
        if count < len(buffer):
            body.close()
            self._body = None
            if not count:
                raise StoreOutOfReach("the store hung up in the middle of its answer: try again later")
        return count

    def _require_open(self) -> None:
        if self._closed:
            if self._body is not None:
                self._body.close()
            raise Cancelled("the stream was closed")
