"""Where downloads are kept between runs: outside the clone, so that a second run needs no network."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_home() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "tiergate"


def cached_directory(name: str, fill: Callable[[Path], None]) -> Path:
    """The cached directory of that name; `fill` makes it when it is missing. It appears whole or not at all."""
    directory = cache_home() / name
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _alone(directory.with_name(f"{name}.lock")):
            if not directory.exists():  # else another process was faster
                _fill(directory, fill)
    return directory


def _fill(directory: Path, fill: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        fill(unfinished)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
