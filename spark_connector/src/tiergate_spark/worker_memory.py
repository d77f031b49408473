"""Memory of a worker process of Spark's, as the C library manages it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

# Of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_LARGEST_KEPT_BYTES: Final = 32 * 1024 * 1024
_MOST_KEPT_BYTES: Final = 64 * 1024 * 1024


@cache
def keep_freed_memory() -> None:
    """What one chunk of records gives back, the next one takes: a tenth less work for the kernel than fresh pages.

    Without it, glibc returns memory to the system as soon as a few megabytes are free. Nothing is done where the
    C library is another one.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    if set_option(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES):  # one without the other is worse than none
        set_option(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
