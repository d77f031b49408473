"""Until when the call that is being served is worth any work, wherever that work is done. It ends nothing by itself.

The edge sets it, adapters look at it before they try again. Threads that work for a call get it with its context
(`contextvars.copy_context`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from tiergate_client.errors import StorageUnavailable

_RETRY_AFTER_MS = 1000

_deadline: ContextVar[float | None] = ContextVar("call_deadline", default=None)


@contextmanager
def call_deadline(seconds: float | None) -> Iterator[None]:
    """What runs inside is worth doing for so long; None: however long it takes. It replaces an outer one."""
    token = _deadline.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        # A stream that nobody reads to its end is closed by whichever thread collects it, which has no deadline set.
        with suppress(ValueError):
            _deadline.reset(token)


def remaining_s() -> float | None:
    """Not below 0; None: there is no deadline."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


@contextmanager
def in_time(lock: threading.Lock) -> Iterator[None]:
    """Holds a lock behind which a store is asked: one that is away would keep everyone waiting for it, one by one.

    Raises StorageUnavailable when the deadline comes first.
    """
    wait_s = remaining_s()
    if not lock.acquire(timeout=-1 if wait_s is None else wait_s):
        raise StorageUnavailable(
            "the object store did not answer in time to another call, which this one has to wait for: try again",
            retry_after_ms=_RETRY_AFTER_MS,
        )
    try:
        yield
    finally:
        lock.release()
