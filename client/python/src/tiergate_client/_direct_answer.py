"""What a store answers to a GET for a run of bytes: the bytes as they come, or what is wrong. It asks for nothing.

Errors name the host alone: a presigned URL is a secret, and what a store answers to one that it refuses may repeat it.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tiergate_client.errors import StorageUnavailable

Keep = Callable[[http.client.HTTPConnection], None]

_THROTTLED_RETRY_AFTER_MS = 200
_STEP_BYTES = 1024 * 1024
"""What is lost of an answer when its connection breaks, at most."""
_PARTIAL = 206
_ABSENT = 404
_BEYOND_THE_END = 416
_SUCCESSES = range(200, 300)
_MAY_PASS = frozenset({408, 429})


class StoreOutOfReach(StorageUnavailable):
    """The store did not answer, or not with what was asked for; it may the next time."""


class UrlRefused(StoreOutOfReach):
    """The store does not serve this URL, and will not the next time."""


class ObjectMissing(Exception):
    """The store has nothing at this URL."""


class ObjectTooShort(Exception):
    """The object ends before the run does."""


class Body:
    """The bytes of one answer, as they come. Used by one thread, and closed by any."""

    def __init__(self, connection: http.client.HTTPConnection, *, place: str, keep: Keep) -> None:
        self._place = place
        self._keep = keep
        self._connection = connection
        self._unread = [connection.sock]
        self._process = os.getpid()
        self._reading = threading.Lock()
        self._response = connection.getresponse()

    @property
    def length(self) -> int | None:
        """How much is left, if the store said so."""
        return self._response.length

    def require_run(self, begin: int, end: int) -> None:
        """That these are the bytes [begin, end). Raises StoreOutOfReach, ObjectMissing, ObjectTooShort."""
        status, wanted = self._response.status, end - begin
        if status == _ABSENT:
            raise ObjectMissing
        if status == _BEYOND_THE_END:
            raise ObjectTooShort
        if status == _PARTIAL and self._first == begin:
            if self.length is not None and self.length < wanted:
                raise ObjectTooShort
            if self.length in (None, wanted):
                return
        if status >= http.client.INTERNAL_SERVER_ERROR or status in _MAY_PASS:
            raise StoreOutOfReach(
                f"the store at {self._place} answered {status}: try again later",
                retry_after_ms=_THROTTLED_RETRY_AFTER_MS,
            )
        if status in _SUCCESSES:
            raise UrlRefused(
                f"the store at {self._place} answered {status}, but not with the bytes that were asked for: check "
                "whether it serves ranges, and what stands between"
            )
        raise UrlRefused(
            f"the store at {self._place} answered {status} to a URL of the service: check the service's clock, and "
            "what its credentials may read"
        )

    def readinto(self, buffer: memoryview) -> int:
        """Fills the buffer; fewer bytes mean that the connection broke. In a forked child there are none to be had."""
        filled = 0
        if self._process != os.getpid():
            return filled
        with self._reading:
            with suppress(OSError, http.client.HTTPException):
                while filled < len(buffer) and (
                    count := self._response.readinto(buffer[filled : filled + _STEP_BYTES])
                ):
                    filled += count
            is_read = filled == len(buffer) and self._response.isclosed()
            if is_read and self._connection.sock is not None and self._taken() is not None:
                self._keep(self._connection)
        return filled

    def close(self) -> None:
        """Ends it before its end. A second time is fine, and so is a body that was read."""
        unread = self._taken()
        if unread is not None and self._process == os.getpid():
            with suppress(OSError):
                unread.shutdown(socket.SHUT_RDWR)  # wakes up whoever reads
            with self._reading:
                self._connection.close()
                self._response.close()  # whose socket is its own when the store wanted the connection closed

    def _taken(self) -> socket.socket | None:
        """By whoever comes first: the reader, at the end, or who closes."""
        try:
            return self._unread.pop()
        except IndexError:
            return None

    @property
    def _first(self) -> int:
        """Where in the object it begins; -1 when the store does not say so."""
        text = self._response.headers.get("Content-Range", "").partition("-")[0].removeprefix("bytes ")
        return int(text) if text.isdecimal() else -1
