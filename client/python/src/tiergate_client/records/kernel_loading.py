"""Loads the compiled loops from a file whose place is the same in every process, so that numba's cache is found again.

From an installed package they are imported as ever. A package that came as a zip has another path in each application:
the one file that is compiled is then copied to the user's cache, by its content, and imported from there.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from tiergate_client.records.scratch_cache import loaded_despite_the_cache

_MODULE: Final = "tiergate_client.records._kernels"
_FRAMING_MODULE: Final = "tiergate_client.records._framing_kernels"


def load_kernels() -> Any:
    """The module `_kernels`. Raises ImportError where numba is missing, OSError where nothing at all can be written."""
    return loaded_despite_the_cache(import_kernels)


def load_framing_kernels() -> Any:
    """The module `_framing_kernels`. Raises as `load_kernels` does."""
    return loaded_despite_the_cache(import_framing_kernels)


def import_framing_kernels() -> Any:
    """Where they are, also in a zip: only a server has use for them. Raises as `import_kernels` does."""
    return import_module(_FRAMING_MODULE)


def import_kernels() -> Any:
    """Raises RuntimeError or OSError, too, where numba can keep nothing."""
    found = find_spec(_MODULE)
    if found is None or found.origin is None or Path(found.origin).is_file() or _MODULE in sys.modules:
        return import_module(_MODULE)
    source: bytes = found.loader.get_data(found.origin)  # type: ignore[union-attr] # a zip's loader has it
    with _copied(source) as path:
        spec = spec_from_file_location(_MODULE, path)
        assert spec is not None  # noqa: S101 - for the type checker: the name ends in .py
        assert spec.loader is not None  # noqa: S101
        module = module_from_spec(spec)
        sys.modules[_MODULE] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[_MODULE]
            raise
    return module


@contextmanager
def _copied(source: bytes) -> Iterator[Path]:
    """In the user's cache; without one it is compiled again in every process, and the copy gone afterwards."""
    name = f"kernels-{hashlib.sha256(source).hexdigest()[:16]}"
    try:
        path = _written(_cache_home() / "tiergate" / name, source)
    except (OSError, RuntimeError):  # no home, or one that can not be written
        path = None
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tiergate-kernels-") as directory:
        yield _written(Path(directory), source)


def _written(directory: Path, source: bytes) -> Path:
    """The file is run as code: what is there counts only if it is the very same. Other processes may do this too."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "_kernels.py"
    if not path.exists() or path.read_bytes() != source:
        handle, unfinished = tempfile.mkstemp(dir=directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(source)
            Path(unfinished).replace(path)
        except BaseException:
            Path(unfinished).unlink()
            raise
    return path


def _cache_home() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return Path(configured) if configured else Path.home() / ".cache"
