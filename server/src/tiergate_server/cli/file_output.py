"""Where `tiergate get` writes: a file that appears when it is complete, or a stream such as stdout."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

STDOUT = "-"


@contextmanager
def opened_output(name: str) -> Iterator[BinaryIO]:
    """A file is written beside its place and renamed at the end, so that a failure leaves what was there before."""
    path = Path(name)
    if name == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.exists() and not path.is_file():  # a pipe or a device: renaming would replace it
        with path.open("wb") as stream:
            yield stream
    else:
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.unfinished")
        try:
            with unfinished.open("xb") as stream:
                yield stream
            unfinished.replace(path)
        except OSError as error:
            if error.filename == str(unfinished):  # a name that nobody typed
                error.filename = name
            raise
        finally:
            unfinished.unlink(missing_ok=True)
