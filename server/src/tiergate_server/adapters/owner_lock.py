"""One process at a time owns a file: an flock on a second file beside it, which holds the owner's pid.

The lock ends with its process, however that ends, so nothing has to be cleaned up after a crash. It does not protect
against a process that never asks for it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileIsOwned(Exception):
    """Somebody else owns the file; `owner_pid` is None in the moment before the owner has written it."""

    def __init__(self, owner_pid: int | None) -> None:
        super().__init__(f"owned by process {owner_pid or 'unknown'}")
        self.owner_pid = owner_pid


class OwnerLock:
    """Owned from creation to `release`. A second one is refused in the same process too."""

    def __init__(self, path: Path) -> None:
        """Raises FileIsOwned at once, and OSError when the lock file cannot be made."""
        self._descriptor: int | None = None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            raise FileIsOwned(int(owner) if owner.isdigit() else None) from None
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """A second time is fine. The file stays: removing it would let two owners in, each with a file of its own."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
