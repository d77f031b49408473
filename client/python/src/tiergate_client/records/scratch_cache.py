"""What is done where numba can write its cache nowhere: it compiles into a place that this process alone has.

numba takes a cache that it can not write for none, also one that holds all it needs, as on a file system that is
read-only: what is kept in `NUMBA_CACHE_DIR` is then read by way of that place. Which loops there are is not known here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tiergate_client._fork_safety import ForkSafe

_OURS: Final = "*_kernels.*.nb?"
_loading: Final = ForkSafe()
"""One load at a time: where numba keeps what it compiles is a setting of the whole process."""


def loaded_despite_the_cache(load: Callable[[], Any]) -> Any:
    """What `load` returns. Raises OSError where not even temporary files can be written, ImportError without numba."""
    with _loading.lock:
        if not is_filled_but_read_only():
            try:
                return load()
            except (RuntimeError, OSError):  # no place for a cache, or a disk that is full
                pass
        with _scratch_cache():
            return load()


def is_filled_but_read_only() -> bool:
    """Whether `NUMBA_CACHE_DIR` holds loops of ours and can not be written. Raises ImportError without numba."""
    kept: str = _numba_settings().CACHE_DIR
    return bool(kept) and not os.access(kept, os.W_OK) and any(Path(kept).rglob(_OURS))


@contextmanager
def _scratch_cache() -> Iterator[None]:
    """Gone afterwards: our loops are compiled for given types while they are loaded, and need no cache later on."""
    settings = _numba_settings()
    kept: str = settings.CACHE_DIR
    with tempfile.TemporaryDirectory(prefix="tiergate-kernels-") as scratch:
        for file in Path(kept).rglob(_OURS) if kept else ():
            copy = Path(scratch) / file.relative_to(kept)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)  # without its permissions
        settings.CACHE_DIR = scratch
        try:
            yield
        finally:
            settings.CACHE_DIR = kept


def _numba_settings() -> Any:
    import numba  # noqa: PLC0415 - optional, and slow to load

    return numba.config
