"""The file-system operations that durable storage is made of, and nothing above them.

They are named one by one so that a test can put a disk underneath that forgets what was not fsynced. As on POSIX,
`fsync` makes a file's content durable and `fsync_directory` the names in a directory; neither does the other's work.
Methods raise OSError, and the usual subclasses of it.
"""

from __future__ import annotations

import os
import stat
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a directory and what is behind it."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_at_ms: int


class Disk(ABC):
    """A file system. Handles are numbers, each used by one thread at a time; everything else may be shared."""

    @abstractmethod
    def create(self, path: Path) -> int:
        """A new file, open for writing. Raises FileExistsError."""

    @abstractmethod
    def write(self, handle: int, data: bytes | memoryview) -> None:
        """Appends all of `data`."""

    @abstractmethod
    def write_at(self, handle: int, data: bytes | memoryview, *, offset: int) -> None:
        """Writes all of `data` there; a gap that it leaves behind the end of the file reads as zeros."""

    @abstractmethod
    def fsync(self, handle: int) -> None:
        """Returns when the content written so far survives a power cut."""

    @abstractmethod
    def open(self, path: Path) -> int:
        """An existing file, for reading. Raises FileNotFoundError, NotADirectoryError, IsADirectoryError."""

    @abstractmethod
    def open_for_update(self, path: Path) -> int:
        """An existing file as it is, for `read` and `write_at`. Raises like `open`."""

    @abstractmethod
    def size(self, handle: int) -> int:
        """Bytes in an open file."""

    @abstractmethod
    def read(self, handle: int, size: int, *, offset: int) -> bytes:
        """Bytes at `offset`; fewer than `size` only at the end of the file."""

    def read_into(self, handle: int, place: memoryview, *, offset: int) -> int:
        """Like `read`, to a place of the caller's; how many bytes it was."""
        data = self.read(handle, len(place), offset=offset)
        place[: len(data)] = data
        return len(data)

    @abstractmethod
    def close(self, handle: int) -> None: ...

    @abstractmethod
    def link(self, source: Path, target: Path) -> None:
        """Gives a file a second name, atomically. Raises FileExistsError when the name is taken."""

    @abstractmethod
    def unlink(self, path: Path) -> None: ...

    @abstractmethod
    def mkdir(self, path: Path) -> None:
        """One directory. Raises FileExistsError, FileNotFoundError when its parent is missing."""

    @abstractmethod
    def rmdir(self, path: Path) -> None:
        """Removes a directory if it is empty."""

    @abstractmethod
    def fsync_directory(self, path: Path) -> None:
        """Returns when the names in the directory, present and removed, survive a power cut."""

    @abstractmethod
    def entries(self, path: Path) -> list[DirectoryEntry]:
        """What is in a directory; names that vanish meanwhile are left out."""


class OsDisk(Disk):
    """The operating system's."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, handle: int, data: bytes | memoryview) -> None:
        written = os.write(handle, data)
        rest = memoryview(data)
        while written < len(rest):
            rest = rest[written:]
            written = os.write(handle, rest)

    def write_at(self, handle: int, data: bytes | memoryview, *, offset: int) -> None:
        written = os.pwrite(handle, data, offset)
        rest = memoryview(data)
        while written < len(rest):
            rest = rest[written:]
            offset += written
            written = os.pwrite(handle, rest, offset)

    def fsync(self, handle: int) -> None:
        if sys.platform == "darwin":  # there fsync stops at the drive's own cache
            import fcntl  # noqa: PLC0415

            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fsync(handle)

    def open(self, path: Path) -> int:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            os.close(handle)
            raise IsADirectoryError(f"{path} is a directory")
        return handle

    def open_for_update(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read(self, handle: int, size: int, *, offset: int) -> bytes:
        data = os.pread(handle, size, offset)
        while data and len(data) < size and (more := os.pread(handle, size - len(data), offset + len(data))):
            data += more
        return data

    def read_into(self, handle: int, place: memoryview, *, offset: int) -> int:
        read_bytes = os.preadv(handle, [place], offset)
        while 0 < read_bytes < len(place) and (more := os.preadv(handle, [place[read_bytes:]], offset + read_bytes)):
            read_bytes += more
        return read_bytes

    def close(self, handle: int) -> None:
        os.close(handle)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> None:
        path.mkdir()

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def fsync_directory(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(handle)
        finally:
            os.close(handle)

    def entries(self, path: Path) -> list[DirectoryEntry]:
        found = []
        with os.scandir(path) as scan:
            for entry in scan:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                is_directory = stat.S_ISDIR(status.st_mode)
                modified_at_ms = status.st_mtime_ns // 1_000_000
                found.append(DirectoryEntry(entry.name, is_directory, status.st_size, modified_at_ms))
        return found
