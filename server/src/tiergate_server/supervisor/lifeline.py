"""How a plane learns that its supervisor is gone, however it went.

The supervisor holds the writing end of a pipe and never writes; the kernel closes it with the process, also after
kill -9, and the plane reads the end of the file. Stopping the plane is the callback's work.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


def watch_lifeline(fd: int, on_end: Callable[[], object]) -> threading.Thread:
    """Calls `on_end` once, from a thread of its own, when the other end of `fd` is closed. Owns `fd` from now on."""
    os.set_inheritable(fd, False)
    thread = threading.Thread(target=_watch, args=(fd, on_end), name="lifeline", daemon=True)
    thread.start()
    return thread


def _watch(fd: int, on_end: Callable[[], object]) -> None:
    with open(fd, "rb", buffering=0) as lifeline:
        while lifeline.read(1):
            pass
    on_end()
