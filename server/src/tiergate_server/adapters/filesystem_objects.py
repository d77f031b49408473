"""One object on its way to or from a file. Where files lie and how they are named is `filesystem_store`'s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.disk import Disk
from tiergate_server.segments.object_store import ObjectReader, ObjectUpload

_RETRY_AFTER_MS = 1000


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """The disk's complaints become StorageUnavailable; `action` completes the sentence 'the object store cannot'."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(
            f"the object store cannot {action}: {error.strerror or error}; try again when its disk is in order",
            retry_after_ms=_RETRY_AFTER_MS,
        ) from error


class FileUpload(ObjectUpload):
    """Writes to a temporary file, which `publish` gives its real name."""

    def __init__(self, disk: Disk, temporary: Path, *, key: str, publish: Callable[[], bool]) -> None:
        self._disk = disk
        self._temporary = temporary
        self._key = key
        self._publish = publish
        with storage_errors(f"begin {key!r}"):
            self._handle: int | None = disk.create(temporary)
        self._leaves_temporary = True

    def write(self, data: bytes | memoryview) -> None:
        with storage_errors(f"write {self._key!r}"):
            self._disk.write(self._open_handle(), data)

    def commit(self) -> bool:
        with storage_errors(f"commit {self._key!r}"):
            self._disk.fsync(self._open_handle())
            self._close()
            is_new = self._publish()
        self.abort()
        return is_new

    def abort(self) -> None:
        # Best effort: what stays behind is invisible, and the store removes it a day later.
        with suppress(OSError):
            self._close()
        if self._leaves_temporary:
            self._leaves_temporary = False
            with suppress(OSError):
                self._disk.unlink(self._temporary)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"the upload of {self._key!r} is over: begin another one")
        return self._handle

    def _close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._disk.close(handle)


class FileReader(ObjectReader):
    """Reads [offset, end) of an open file."""

    def __init__(self, disk: Disk, handle: int, *, key: str, offset: int, end: int) -> None:
        self._disk = disk
        self._handle: int | None = handle
        self._key = key
        self._offset = offset
        self._end = end

    def read(self, size: int) -> bytes:
        handle = self._open_handle()
        with storage_errors(f"read {self._key!r}"):
            data = self._disk.read(handle, min(size, self._end - self._offset), offset=self._offset)
        self._offset += len(data)
        return data

    def read_into(self, place: memoryview) -> int:
        handle = self._open_handle()
        with storage_errors(f"read {self._key!r}"):
            read_bytes = self._disk.read_into(handle, place[: self._end - self._offset], offset=self._offset)
        self._offset += read_bytes
        return read_bytes

    def _open_handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"the reader of {self._key!r} is closed: open another one")
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with storage_errors(f"close {self._key!r}"):
                self._disk.close(handle)
