"""Ends calls whose peer neither sends nor reads, so that such peers never hold all threads.

Only the wait for the peer counts, never the server's own work: a slow disk is no reason to end an upload.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

_logger = logging.getLogger(__name__)

Message = TypeVar("Message")


class PeerWatch:
    """One call under watch: since when its thread has been waiting for the peer, if it is."""

    __slots__ = ("context", "waiting_since")

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context = context
        self.waiting_since: float | None = None

    def receiving(self, messages: Iterator[Message]) -> Iterator[Message]:
        """The same messages; waiting for the next one is waiting for the peer."""
        while True:
            self.waiting_since = time.monotonic()
            try:
                message = next(messages)
            except StopIteration:
                return
            finally:
                self.waiting_since = None
            yield message

    def sending(self, answers: Iterator[Message]) -> Iterator[Message]:
        """The same answers; from giving one away until the next one is asked for is waiting for the peer."""
        for answer in answers:
            self.waiting_since = time.monotonic()
            try:
                yield answer
            finally:
                self.waiting_since = None


class StallGuard:
    """Watches calls from one thread. A cancelled call's thread wakes up from whatever send or receive it is in."""

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._watched: set[PeerWatch] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall-guard", daemon=True)
        self._thread.start()

    @contextmanager
    def watch(self, context: grpc.ServicerContext) -> Iterator[PeerWatch]:
        watch = PeerWatch(context)
        with self._lock:
            self._watched.add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._watched.discard(watch)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._stall_seconds / 4):
            limit = time.monotonic() - self._stall_seconds
            with self._lock:
                watched = list(self._watched)
            for watch in watched:
                waiting_since = watch.waiting_since
                if waiting_since is not None and waiting_since < limit:
                    _logger.warning(
                        "ended a call of %s that did not move for %g s", watch.context.peer(), self._stall_seconds
                    )
                    watch.context.cancel()
