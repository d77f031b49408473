r"""Objects as files below one directory, for a single machine. It knows keys and bytes, nothing of segments.

An upload is written to `<root>/.uploads/<random>\<key>`, fsynced, and published under its key; only when its name is
durable, too, the call answers. There a slash of the key is a backslash, which no key holds; a long key is left out. A
partial upload lies in `<root>/.partials/<key>/<random>`, for as long as nobody ends it.

Several processes may share a root.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path

from tiergate_client.clock import Clock, system_clock
from tiergate_client.errors import StorageUnavailable
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.disk import Disk, OsDisk
from tiergate_server.adapters.durable_directories import make_durable_directories
from tiergate_server.adapters.filesystem_listing import listed_files
from tiergate_server.adapters.filesystem_objects import FileReader, FileUpload, storage_errors
from tiergate_server.adapters.filesystem_partial import FilePartial, matching_bytes
from tiergate_server.adapters.filesystem_tree import FileTree
from tiergate_server.adapters.object_keys import key_names
from tiergate_server.segments.object_store import (
    InvalidKey,
    ObjectInfo,
    ObjectNotFound,
    ObjectReader,
    ObjectStore,
    ObjectUpload,
    PartialGone,
    PartialInfo,
    PartialUpload,
)

_UPLOADS = ".uploads"
_PARTIALS = ".partials"
_SLASH = "\\"
_LONGEST_NAME_BYTES = 255
_HANDLE = re.compile("[0-9a-f]{32}")
_LEFTOVER_AGE_MS = 24 * 60 * 60 * 1000
_DELETES_AT_ONCE = 1000


class FilesystemStore(ObjectStore):
    """Objects below `root`, which is made when it is missing."""

    def __init__(self, root: Path, *, disk: Disk | None = None, clock: Clock = system_clock) -> None:
        self._root = root.absolute()
        self._disk = OsDisk() if disk is None else disk
        self._tree = FileTree(self._disk, self._root)
        self._uploads = self._root / _UPLOADS
        self._partials = self._root / _PARTIALS
        with storage_errors(f"use {root}"):
            make_durable_directories(self._disk, self._uploads)
            self._remove_leftovers(clock() - _LEFTOVER_AGE_MS)

    def upload(self, key: str) -> ObjectUpload:
        key_names(key)
        temporary = self._temporary_path(key, secrets.token_hex(16))
        return FileUpload(self._disk, temporary, key=key, publish=partial(self._tree.publish, temporary, key=key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self.upload(key) as upload:
            upload.write(data)
            return upload.commit()

    def begin_partial(self, key: str, *, size_bytes: int) -> str | None:
        handle = secrets.token_hex(16)
        path = self._partial_path(key, handle)
        if size_bytes <= BLOCK_BYTES:
            return None
        with storage_errors(f"begin {key!r}"):
            self._disk.close(self._tree.create(path))
        return handle

    def open_partial(self, key: str, handle: str, *, size_bytes: int, block_crc32c: Sequence[int]) -> PartialUpload:
        path = self._partial_path(key, handle)
        with storage_errors(f"continue {key!r}"):
            try:
                file = self._disk.open_for_update(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise PartialGone(f"there is no partial upload {handle!r} of {key!r}") from None
            try:
                committed_bytes = matching_bytes(self._disk, file, size_bytes=size_bytes, block_crc32c=block_crc32c)
            except BaseException:
                self._disk.close(file)
                raise
        return FilePartial(
            self._disk,
            file,
            key=key,
            size_bytes=size_bytes,
            committed_bytes=committed_bytes,
            publish=partial(self._tree.publish, path, key=key),
            drop=partial(self._drop_partial, path),
        )

    def end_partial(self, key: str, handle: str) -> None:
        with suppress(PartialGone), storage_errors(f"end the upload of {key!r}"):
            self._drop_partial(self._partial_path(key, handle))
            self._tree.unlink(self._temporary_path(key, handle))

    def list_partials(self, prefix: str) -> Iterator[PartialInfo]:
        begin = f"{prefix}/" if prefix else ""
        directory = self._partials.joinpath(*key_names(prefix)) if prefix else self._partials
        partials = self._listed_partials(directory, begin)
        return partials if prefix else chain(partials, self._left_uploads())

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

    def exists(self, key: str) -> bool:
        with storage_errors(f"look for {key!r}"):
            try:
                self._disk.close(self._open(key))
            except ObjectNotFound:
                return False
        return True

    def presign(self, key: str, *, valid_s: int) -> str | None:  # noqa: ARG002
        return None

    def delete(self, key: str) -> None:
        self.delete_many((key,))

    def delete_many(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        failures: list[InvalidKey | StorageUnavailable] = []
        while batch := list(islice(remaining, _DELETES_AT_ONCE)):
            failures += self._failed_deletes(batch)
        if failures:
            raise failures[0]

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        directory = self._tree.path(prefix) if prefix else self._root
        return self._listed(directory, f"{prefix}/" if prefix else "", after)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _open(self, key: str) -> int:
        try:
            return self._disk.open(self._tree.path(key))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(f"there is no object {key!r}") from None

    def _listed(self, directory: Path, begin: str, after: str) -> Iterator[ObjectInfo]:
        with storage_errors(f"list {begin!r}"):
            yield from listed_files(self._disk, directory, prefix=begin, after=after)

    def _partial_path(self, key: str, handle: str) -> Path:
        names = key_names(key)
        if not _HANDLE.fullmatch(handle):
            raise PartialGone(f"{handle!r} is no partial upload of {key!r} in a directory")
        return self._partials.joinpath(*names, handle)

    def _drop_partial(self, path: Path) -> None:
        self._tree.unlink(path)
        self._tree.prune(path.parent)

    def _listed_partials(self, directory: Path, begin: str) -> Iterator[PartialInfo]:
        for file in self._listed(directory, begin, ""):
            key, _, handle = file.key.rpartition("/")
            # A partial upload of the prefix itself lies beside the directories of those below it. Sessions write to
            # the file: its time tells when somebody was last at it.
            if key.startswith(begin):
                yield PartialInfo(key, handle, begun_at_ms=file.modified_at_ms)

    def _left_uploads(self) -> Iterator[PartialInfo]:
        """Ordinary uploads, which are under way or were left by a killed process: nothing but their age tells."""
        with storage_errors("list uploads"):
            entries = self._disk.entries(self._uploads)
        for entry in entries:
            handle, _, key = entry.name.partition(_SLASH)
            if key:
                yield PartialInfo(key.replace(_SLASH, "/"), handle, begun_at_ms=entry.modified_at_ms)

    def _temporary_path(self, key: str, handle: str) -> Path:
        name = f"{handle}{_SLASH}{key.replace('/', _SLASH)}"
        return self._uploads / (name if len(name.encode()) <= _LONGEST_NAME_BYTES else handle)

    def _failed_deletes(self, keys: Sequence[str]) -> Iterator[InvalidKey | StorageUnavailable]:
        """Deletes objects, syncing each directory once, and gives what went wrong."""
        directories = set()
        for key in keys:
            try:
                path = self._tree.path(key)
                with storage_errors(f"delete {key!r}"):
                    self._tree.unlink(path)
            except (InvalidKey, StorageUnavailable) as failure:
                yield failure
            else:
                directories.add(path.parent)
        try:
            with storage_errors("make deletes durable"):
                self._tree.sync_up_from(directories)
        except StorageUnavailable as failure:
            yield failure
        else:
            for directory in directories:
                self._tree.prune(directory)

    def _remove_leftovers(self, before_ms: int) -> None:
        for entry in self._disk.entries(self._uploads):
            if entry.modified_at_ms < before_ms:
                with suppress(FileNotFoundError):
                    self._disk.unlink(self._uploads / entry.name)
