"""Locks that a forked child can still take: in the child, the thread that held one does not exist."""

from __future__ import annotations

import os
import threading
import weakref

_alive: weakref.WeakSet[ForkSafe] = weakref.WeakSet()


class ForkSafe:
    """Has a lock, which is new in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _alive.add(self)

    def forked(self) -> None:
        """Called in the child, before anything else runs there."""
        self.lock = threading.Lock()


def _renew() -> None:
    for one in list(_alive):
        one.forked()


os.register_at_fork(after_in_child=_renew)
