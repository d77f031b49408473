"""The names of objects in a tree of directories: given, removed, and durable. It moves no bytes.

A name is given by `link()`, which never replaces one; then every directory from the object's up to the root is fsynced.
Also when the name was taken: whoever took it may have been stopped between link and fsync, and our caller builds on it.

Several processes may share a root. Directories that become empty are removed, so a link can find its directory gone:
then it is made again. Every directory on the way is fsynced each time, not only a new one, since the process that made
it may not have come so far; a directory that has not changed costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tiergate_server.adapters.disk import Disk
from tiergate_server.adapters.durable_directories import make_directories
from tiergate_server.adapters.object_keys import key_names
from tiergate_server.segments.object_store import InvalidKey

_ATTEMPTS = 100


class SourceGone(FileNotFoundError):
    """The file that was to get a name has none any more, and the name is free."""


class FileTree:
    """Files below `root`, which exists. Methods raise OSError unless they say more."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root

    def path(self, key: str) -> Path:
        """Raises InvalidKey."""
        return self._root.joinpath(*key_names(key))

    def publish(self, source: Path, *, key: str) -> bool:
        """Gives a file the name of an object, durably; False when it was taken. Raises SourceGone, InvalidKey."""
        path = self.path(key)
        try:
            linked = self._link(source, path)
        except NotADirectoryError:
            raise InvalidKey(f"{key!r} lies below another object") from None
        if not linked:
            try:
                self._is_file(path)  # if not, it was deleted since: it was taken when we asked
            except IsADirectoryError:
                raise InvalidKey(f"{key!r} is taken: other objects lie below it") from None
        self.sync_up_from([path.parent])
        return linked

    def create(self, path: Path) -> int:
        """A new file and its missing directories, open for writing, neither durable."""
        for _ in range(_ATTEMPTS):
            try:
                return self._disk.create(path)
            except FileNotFoundError:
                self._make_directories(path.parent)
        raise _vanishing(path.parent)

    def unlink(self, path: Path) -> None:
        """Absent is fine, and so is a directory: it is no object."""
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self._disk.unlink(path)

    def sync_up_from(self, directories: Iterable[Path]) -> None:
        """Makes the names on the ways from these directories to the root durable; goes on after a failure, then raises.

        All the way, also after a removal: a directory may have been pruned, and made again, since a name in it was
        removed, and until the directory above is durable the old one can come back.
        """
        failures = []
        for directory in sorted({way for start in directories for way in self._way_up(start)}, reverse=True):
            try:
                self._disk.fsync_directory(directory)
            except (FileNotFoundError, NotADirectoryError):
                pass  # gone, which those above make durable
            except OSError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def prune(self, directory: Path) -> None:
        """Removes the directory if it is empty, and those above that become so."""
        with suppress(OSError):  # not empty, gone, or for a later delete to remove
            while directory != self._root:
                self._disk.rmdir(directory)
                directory = directory.parent

    def _link(self, source: Path, path: Path) -> bool:
        for _ in range(_ATTEMPTS):
            try:
                self._disk.link(source, path)
            except FileExistsError:
                return False
            except FileNotFoundError:
                # The directory is not there yet, a concurrent delete has just pruned it, or the source is gone.
                if not self._is_file(source):
                    if self._is_file(path):
                        return False
                    raise SourceGone(f"{source} is gone") from None
                self._make_directories(path.parent)
            else:
                return True
        raise _vanishing(path.parent)

    def _is_file(self, path: Path) -> bool:
        try:
            self._disk.close(self._disk.open(path))
        except FileNotFoundError:
            return False
        return True

    def _make_directories(self, directory: Path) -> None:
        with suppress(FileNotFoundError):
            make_directories(self._disk, directory)

    def _way_up(self, directory: Path) -> Iterator[Path]:
        while directory.is_relative_to(self._root):
            yield directory
            directory = directory.parent


def _vanishing(directory: Path) -> OSError:
    return OSError(f"{directory} vanished again and again")
