"""A disk in memory that loses, at a power cut, every content and every name that was not fsynced.

Strict as POSIX allows: fsync of a file does not keep its name, fsync of a directory keeps the names in it but neither
the content behind them nor the directory's own name. Used by one thread.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tiergate_client.clock import Clock
from tiergate_server.adapters.disk import DirectoryEntry, Disk


class PowerCut(BaseException):
    """The machine stops here. Not an Exception: no code above the disk gets to handle it."""


@dataclass(eq=False)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable_content: bytes = b""
    modified_at_ms: int = 0


@dataclass(eq=False)
class _Directory:
    entries: dict[str, _File | _Directory] = field(default_factory=dict)
    durable_entries: dict[str, _File | _Directory] = field(default_factory=dict)


_Node = _File | _Directory


class ForgetfulDisk(Disk):
    """Counts the operations that change something; stops after, or fails at, the one that a test names."""

    def __init__(self, *, clock: Clock = lambda: 0) -> None:
        self.operations = 0
        self._clock = clock
        self._root = _Directory()
        self._open_files: dict[int, _File] = {}
        self._next_handle = 1
        self._cut_at: int | None = None
        self._fail_at: int | None = None

    def cut_after(self, operations: int) -> None:
        """The power goes when that many more operations are done."""
        self._cut_at = self.operations + operations

    def fail_at(self, operations: int, code: int = errno.ENOSPC) -> None:
        """That many more operations succeed; the next one fails, those after it succeed again."""
        self._fail_at = self.operations + operations
        self._failure = code

    def restart(self, *, survivors: random.Random | None = None) -> None:
        """Power is back. With `survivors`, a random part of what was not fsynced happens to have reached the disk."""
        self.restart_process()
        self._forget(self._root, survivors, set())

    def restart_process(self) -> None:
        """Only the process was killed: the operating system still knows everything, durable or not."""
        self._cut_at = self._fail_at = None
        self._open_files.clear()

    def create(self, path: Path) -> int:
        parent = self._begin_in(path)
        if path.name in parent.entries:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        file = _File(modified_at_ms=self._clock())
        parent.entries[path.name] = file
        self._done()
        return self._handle(file)

    def write(self, handle: int, data: bytes | memoryview) -> None:
        self._begin()
        file = self._open_files[handle]
        file.content += data
        file.modified_at_ms = self._clock()
        self._done()

    def write_at(self, handle: int, data: bytes | memoryview, *, offset: int) -> None:
        self._begin()
        file = self._open_files[handle]
        file.content += bytes(max(0, offset - len(file.content)))
        file.content[offset : offset + len(data)] = data
        file.modified_at_ms = self._clock()
        self._done()

    def fsync(self, handle: int) -> None:
        self._begin()
        file = self._open_files[handle]
        file.durable_content = bytes(file.content)
        self._done()

    def open(self, path: Path) -> int:
        node = self._find(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        return self._handle(node)

    def open_for_update(self, path: Path) -> int:
        return self.open(path)

    def size(self, handle: int) -> int:
        return len(self._open_files[handle].content)

    def read(self, handle: int, size: int, *, offset: int) -> bytes:
        self._require_power()
        return bytes(memoryview(self._open_files[handle].content)[offset : offset + size])

    def close(self, handle: int) -> None:
        self._require_power()
        del self._open_files[handle]

    def link(self, source: Path, target: Path) -> None:
        node = self._find(source)
        parent = self._begin_in(target)
        if target.name in parent.entries:
            raise FileExistsError(errno.EEXIST, "File exists", str(target))
        parent.entries[target.name] = node
        self._done()

    def unlink(self, path: Path) -> None:
        parent = self._begin_in(path)
        if isinstance(self._find(path), _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        del parent.entries[path.name]
        self._done()

    def mkdir(self, path: Path) -> None:
        if not path.name:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        parent = self._begin_in(path)
        if path.name in parent.entries:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        parent.entries[path.name] = _Directory()
        self._done()

    def rmdir(self, path: Path) -> None:
        parent = self._begin_in(path)
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        del parent.entries[path.name]
        self._done()

    def fsync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        self._begin()
        directory.durable_entries = dict(directory.entries)
        self._done()

    def entries(self, path: Path) -> list[DirectoryEntry]:
        return [
            DirectoryEntry(name, True, 0, 0)
            if isinstance(node, _Directory)
            else DirectoryEntry(name, False, len(node.content), node.modified_at_ms)
            for name, node in self._directory(path).entries.items()
        ]

    def flip_bit(self, path: Path, bit: int) -> None:
        """Damages what is stored, as a failing drive would."""
        node = self._find(path)
        assert isinstance(node, _File)
        node.content[bit // 8] ^= 1 << bit % 8

    def _require_power(self) -> None:
        if self._cut_at is not None and self.operations >= self._cut_at:
            raise PowerCut

    def _begin(self) -> None:
        self._require_power()
        if self.operations == self._fail_at:
            self._fail_at = None
            raise OSError(self._failure, errno.errorcode[self._failure])

    def _begin_in(self, path: Path) -> _Directory:
        self._begin()
        return self._directory(path.parent)

    def _done(self) -> None:
        self.operations += 1
        self._require_power()

    def _handle(self, file: _File) -> int:
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._open_files[handle] = file
        return handle

    def _directory(self, path: Path) -> _Directory:
        node = self._find(path)
        if isinstance(node, _File):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
        return node

    def _find(self, path: Path) -> _Node:
        self._require_power()
        node: _Node = self._root
        for name in path.parts[1:]:
            if isinstance(node, _File):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
            if name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            node = node.entries[name]
        return node

    def _forget(self, node: _Node, survivors: random.Random | None, seen: set[_Node]) -> None:
        if node in seen:  # a file with two names
            return
        seen.add(node)
        if isinstance(node, _File):
            node.durable_content = _after_cut(node, survivors)
            node.content = bytearray(node.durable_content)
            return
        durable = node.durable_entries
        if survivors is not None:
            for name in sorted({*node.entries, *durable}):
                chosen = survivors.choice([node.entries.get(name), durable.get(name)])
                durable.pop(name, None)
                if chosen is not None:
                    durable[name] = chosen
        node.entries = dict(durable)
        for child in durable.values():
            self._forget(child, survivors, seen)


def _after_cut(file: _File, survivors: random.Random | None) -> bytes:
    if survivors is None:
        return file.durable_content
    size = survivors.randint(len(file.durable_content), len(file.content))
    # A file system may extend a file before it writes the blocks, in any order: then there are zeros.
    after = bytearray(file.durable_content.ljust(size, b"\0"))
    cuts = sorted(survivors.randint(0, size) for _ in range(3))
    for begin, end in pairwise([0, *cuts, size]):
        if survivors.random() < 0.5:
            after[begin:end] = file.content[begin:end]
    return bytes(after)


class DiskThatIgnoresFsync(ForgetfulDisk):
    """Says that content is durable when it is not."""

    def fsync(self, handle: int) -> None:
        self._begin()
        assert handle in self._open_files
        self._done()


class DiskThatIgnoresDirectoryFsync(ForgetfulDisk):
    """Says that names are durable when they are not."""

    def fsync_directory(self, path: Path) -> None:
        self._directory(path)
        self._begin()
        self._done()
