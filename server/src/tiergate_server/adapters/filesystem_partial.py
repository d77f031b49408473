"""One partial upload in a file, which any process can continue. Where the file lies is `filesystem_store`'s.

The file has the bytes at their final places, and nobody truncates it. Several sessions, in this and in other processes,
may write it at once: all of them write the same bytes, which their callers have checked against the same checksums. So
a session that is still writing when another one has committed the file changes no byte of the object.

Nothing is durable before commit. What a power cut has lost or left as zeros is found when the upload is opened again:
it does not match its checksum, and is written once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from crc32c import crc32c

from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.disk import Disk
from tiergate_server.adapters.filesystem_objects import storage_errors
from tiergate_server.adapters.filesystem_tree import SourceGone
from tiergate_server.segments.object_store import PartialGone, PartialUpload


class FilePartial(PartialUpload):
    """Writes to an open file, which `publish` gives its real name and `drop` removes under its present one."""

    def __init__(
        self,
        disk: Disk,
        handle: int,
        *,
        key: str,
        size_bytes: int,
        committed_bytes: int,
        publish: Callable[[], bool],
        drop: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._handle: int | None = handle
        self._key = key
        self._size_bytes = size_bytes
        self._committed_bytes = committed_bytes
        self._position = committed_bytes
        self._publish = publish
        self._drop = drop

    @property
    def committed_bytes(self) -> int:
        return self._committed_bytes

    def write(self, data: bytes | memoryview) -> None:
        if self._position + len(data) > self._size_bytes:
            raise ValueError(f"the upload of {self._key!r} has {self._size_bytes} bytes: write no more than those")
        with storage_errors(f"write {self._key!r}"):
            self._disk.write_at(self._open_handle(), data, offset=self._position)
        self._position += len(data)

    def commit(self) -> bool:
        handle = self._open_handle()
        if self._position != self._size_bytes:
            raise ValueError(f"the upload of {self._key!r} has {self._size_bytes} bytes: write all of them first")
        with storage_errors(f"commit {self._key!r}"):
            try:
                self._disk.fsync(handle)
            except OSError:
                # What could not be written can read back as if it had been, and a second fsync would say nothing.
                self._remove()
                raise
            try:
                is_new = self._publish()
            except SourceGone:
                raise PartialGone(f"the upload of {self._key!r} was ended meanwhile") from None
            finally:
                self.close()
        self._remove()
        return is_new

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with suppress(OSError):
                self._disk.close(handle)

    def _remove(self) -> None:
        # Best effort: what stays behind is listed, and can be ended.
        with suppress(OSError):
            self._drop()

    def _open_handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"the upload of {self._key!r} is over: open it again")
        return self._handle


def matching_bytes(disk: Disk, handle: int, *, size_bytes: int, block_crc32c: Sequence[int]) -> int:
    """How much of an object of `size_bytes` the file holds from its beginning, in whole blocks. Raises OSError."""
    for number, expected in enumerate(block_crc32c):
        offset = number * BLOCK_BYTES
        block_bytes = min(BLOCK_BYTES, size_bytes - offset)
        block = disk.read(handle, block_bytes, offset=offset)
        if len(block) != block_bytes or crc32c(block) != expected:
            return offset
    return size_bytes
