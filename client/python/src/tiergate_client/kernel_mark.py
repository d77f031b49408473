"""Whether numba's cache has been filled, told without loading numba, which takes longer than to start a plane."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parent / "records"
_COMPILED: Final = ("_kernels.py", "_framing_kernels.py")


def is_filled() -> bool:
    """By these sources and versions, on this host, into the cache that this process would use."""
    mark = _mark()
    return mark is not None and mark.exists()


def set_filled() -> None:
    """What can not be kept is not told."""
    mark = _mark()
    if mark is not None:
        with suppress(OSError):
            mark.touch()


def _mark() -> Path | None:
    """An empty file beside what is cached, so that it goes when that goes; None where there is no such place."""
    try:
        sources = [(name, (_SOURCES / name).stat().st_mtime_ns) for name in _COMPILED]
        numba = version("numba")
    except (OSError, PackageNotFoundError):
        return None
    settings = [os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")]
    made_by = repr((sources, numba, sys.version, platform.node(), settings))
    place = os.environ.get("NUMBA_CACHE_DIR") or _SOURCES / "__pycache__"
    return Path(place) / f"compiled-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"
