"""Streams of a log that comes straight from the store, and on through the service when it has to."""

from __future__ import annotations

from collections.abc import Callable

from tiergate_client._direct_log import DirectLog
from tiergate_client.errors import TiergateError
from tiergate_client.interfaces import SegmentStream


class DirectStream(SegmentStream):
    """Whose bytes are received where the reader wants them."""

    def __init__(self, log: DirectLog | RestOfLog) -> None:
        super().__init__(iter(log.next_piece, None), log.close)
        self._log = log

    def readinto(self, buffer: memoryview) -> int:
        return self._log.readinto(buffer)


class RestOfLog:
    """A log that begins in the store and goes on through the service when it has to."""

    def __init__(
        self,
        log: DirectLog,
        through_the_service: Callable[..., SegmentStream],
        require_detour: Callable[[TiergateError], None],
    ) -> None:
        self._log = log
        self._through_the_service = through_the_service
        self._require_detour = require_detour
        self._detour: SegmentStream | None = None

    def next_piece(self) -> bytes | memoryview | None:
        if self._detour is None:
            try:
                return self._log.next_piece()
            except TiergateError as trouble:
                self._take_detour(trouble)
        return None if self._detour is None else self._detour.next_piece()

    def readinto(self, buffer: memoryview) -> int:
        if self._detour is None:
            try:
                return self._log.readinto(buffer)
            except TiergateError as trouble:
                self._take_detour(trouble)
        return 0 if self._detour is None else self._detour.readinto(buffer)

    def close(self) -> None:
        (self._detour or self._log).close()

    def _take_detour(self, trouble: TiergateError) -> None:
        self._require_detour(trouble)
        if self._log.position < self._log.end:
            self._detour = self._through_the_service(
                offset=self._log.position, length=self._log.end - self._log.position
            )
