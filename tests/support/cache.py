"""Where downloads are kept between runs: outside the clone, so that a second run needs no network."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_home() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "tiergate"


def cached_directory(name: str, fill: Callable[[Path], None]) -> Path:
    """The cached directory of that name; `fill` makes it when it is missing. It appears whole or not at all."""
    directory = cache_home() / name
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=directory.parent))
        try:
            fill(unfinished)
            unfinished.rename(directory)
        except OSError:
            if not directory.exists():  # else another run was faster, with the same content
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return directory
