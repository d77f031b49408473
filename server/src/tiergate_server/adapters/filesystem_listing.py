"""The files below a directory in the order of their keys, as S3 orders them. Names with a dot in front are no keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiergate_server.adapters.disk import DirectoryEntry, Disk
from tiergate_server.segments.object_store import ObjectInfo


@dataclass(frozen=True, slots=True)
class _Found:
    """A file with its key, or a directory with what the keys in it begin with: so they sort like all the keys."""

    key: str
    path: Path
    entry: DirectoryEntry


def listed_files(disk: Disk, directory: Path, *, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
    """The files below `directory`, whose keys begin with `prefix`, ascending by key, those behind `after`.

    Directories that lie before `after` are not read. Holds the names in the directories on the way down to a file, no
    others. Raises OSError.
    """
    pending = _descending(disk, directory, prefix)
    while pending:
        found = pending.pop()
        if not found.entry.is_directory:
            if found.key > after:
                yield ObjectInfo(found.key, found.entry.size_bytes, found.entry.modified_at_ms)
        elif found.key > after or after.startswith(found.key):
            pending += _descending(disk, found.path, found.key)


def _descending(disk: Disk, directory: Path, prefix: str) -> list[_Found]:
    try:
        entries = disk.entries(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [
        _Found(f"{prefix}{entry.name}{'/' if entry.is_directory else ''}", directory / entry.name, entry)
        for entry in entries
        if not entry.name.startswith(".")
    ]
    # Code points sort like the bytes of their UTF-8.
    return sorted(found, key=lambda one: one.key, reverse=True)
