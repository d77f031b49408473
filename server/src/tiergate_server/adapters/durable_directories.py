"""Directories that are still there after a power cut. What is put into them is not its business."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from tiergate_server.adapters.disk import Disk

# A directory above that is closed to us, or cannot be synced at all, is not one that we could have changed.
_CANNOT_SYNC = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP}


def make_durable_directories(disk: Disk, directory: Path) -> None:
    """Makes the directory and its missing parents, and returns when all their names are durable. Raises OSError.

    Those that are there are synced, too: whoever made them may have been stopped before that.
    """
    directory = directory.absolute()
    changed = {made.parent for made in make_directories(disk, directory)}
    for parent in directory.parents:
        try:
            disk.fsync_directory(parent)
        except OSError as error:
            if parent in changed or error.errno not in _CANNOT_SYNC:
                raise


def make_directories(disk: Disk, directory: Path) -> list[Path]:
    """Makes the directory and its missing parents, not durably, and returns those made here. Raises OSError."""
    try:
        disk.mkdir(directory)
    except FileExistsError:
        return []
    except FileNotFoundError:
        made = make_directories(disk, directory.parent)
        with suppress(FileExistsError):
            disk.mkdir(directory)
        return [*made, directory]
    return [directory]
