"""Objects as files below one directory, for a single machine. It knows keys and bytes, nothing of segments.

An upload is written to `<root>/.uploads/<random>`, fsynced, and published by `link()`, which never replaces a name;
then every directory from the object's up to the root is fsynced, and only then the call answers. Also when the name
was taken: whoever took it may have been stopped between link and fsync, and our caller builds on it.

Several processes may share a root. Directories that become empty are removed, so a link can find its directory gone:
then it is made again. Every directory on the way is fsynced each time, not only a new one, since the process that made
it may not have come so far; a directory that has not changed costs next to nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from tiergate_server.adapters.disk import Disk, OsDisk
from tiergate_server.adapters.durable_directories import make_directories, make_durable_directories
from tiergate_server.adapters.filesystem_objects import FileReader, FileUpload, storage_errors
from tiergate_server.adapters.object_keys import key_names
from tiergate_server.clock import Clock, system_clock
from tiergate_server.segments.object_store import (
    InvalidKey,
    ObjectInfo,
    ObjectNotFound,
    ObjectReader,
    ObjectStore,
    ObjectUpload,
)

_UPLOADS = ".uploads"
_LEFTOVER_AGE_MS = 24 * 60 * 60 * 1000
_LINK_ATTEMPTS = 100


class FilesystemStore(ObjectStore):
    """Objects below `root`, which is made when it is missing."""

    def __init__(self, root: Path, *, disk: Disk | None = None, clock: Clock = system_clock) -> None:
        self._root = root.absolute()
        self._disk = OsDisk() if disk is None else disk
        self._uploads = self._root / _UPLOADS
        with storage_errors(f"use {root}"):
            make_durable_directories(self._disk, self._uploads)
            self._remove_leftovers(clock() - _LEFTOVER_AGE_MS)

    def upload(self, key: str) -> ObjectUpload:
        path = self._path(key)
        temporary = self._uploads / secrets.token_hex(16)
        return FileUpload(self._disk, temporary, key=key, publish=partial(self._publish, temporary, path, key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self.upload(key) as upload:
            upload.write(data)
            return upload.commit()

    def get(self, key: str) -> bytes:
        with storage_errors(f"read {key!r}"):
            handle = self._open(key)
            try:
                return self._disk.read(handle, self._disk.size(handle), offset=0)
            finally:
                self._disk.close(handle)

    def open_range(self, key: str, *, offset: int, length: int) -> ObjectReader:
        with storage_errors(f"read {key!r}"):
            return FileReader(self._disk, self._open(key), key=key, offset=offset, end=offset + length)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with storage_errors(f"delete {key!r}"):
            # A directory is no object. Where there is no directory either, everything in it was durably gone before.
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._disk.unlink(path)
            with suppress(FileNotFoundError, NotADirectoryError):
                self._disk.fsync_directory(path.parent)
            self._prune(path.parent)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._walk(self._path(prefix), prefix)

    def _walk(self, directory: Path, prefix: str) -> Iterator[ObjectInfo]:
        with storage_errors(f"list {prefix!r}"):
            try:
                entries = self._disk.entries(directory)
            except (FileNotFoundError, NotADirectoryError):
                return
        for entry in entries:
            key = f"{prefix}/{entry.name}"
            if entry.is_directory:
                yield from self._walk(directory / entry.name, key)
            else:
                yield ObjectInfo(key, entry.size_bytes)

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*key_names(key))

    def _open(self, key: str) -> int:
        try:
            return self._disk.open(self._path(key))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(f"there is no object {key!r}") from None

    def _sync_up_from(self, directory: Path) -> None:
        """Makes the names on the way from `directory` to the root durable; one that is gone needs nothing."""
        while directory.is_relative_to(self._root):
            with suppress(FileNotFoundError):
                self._disk.fsync_directory(directory)
            directory = directory.parent

    def _prune(self, directory: Path) -> None:
        with suppress(OSError):  # not empty, gone, or for a later delete to remove
            while directory != self._root:
                self._disk.rmdir(directory)
                directory = directory.parent

    def _remove_leftovers(self, before_ms: int) -> None:
        for entry in self._disk.entries(self._uploads):
            if entry.modified_at_ms < before_ms:
                with suppress(FileNotFoundError):
                    self._disk.unlink(self._uploads / entry.name)

    def _publish(self, temporary: Path, path: Path, key: str) -> bool:
        try:
            linked = self._link(temporary, path)
        except NotADirectoryError:
            raise InvalidKey(f"{key!r} lies below another object") from None
        if not linked:
            try:
                self._disk.close(self._disk.open(path))
            except IsADirectoryError:
                raise InvalidKey(f"{key!r} is taken: other objects lie below it") from None
            except FileNotFoundError:
                pass  # deleted since; it was taken when we asked
        self._sync_up_from(path.parent)
        return linked

    def _link(self, temporary: Path, path: Path) -> bool:
        for _ in range(_LINK_ATTEMPTS):
            try:
                self._disk.link(temporary, path)
            except FileExistsError:
                return False
            except FileNotFoundError:
                # The directory is not there yet, or a concurrent delete has just pruned it.
                with suppress(FileNotFoundError):
                    make_directories(self._disk, path.parent)
            else:
                return True
        raise FileNotFoundError(f"{path.parent} or the upload's own file vanished again and again")
