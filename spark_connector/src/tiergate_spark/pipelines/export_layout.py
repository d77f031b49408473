"""How an export lies in its directory, so that every offset is in it once, whatever was killed when.

    PATH/partition=0/start_offset=00000000000000000000/part-….parquet        a range of offsets of one partition
    PATH/partition=0/start_offset=00000000000000000000/_tiergate_range.json  says where it ends, and that it is whole
    PATH/_tiergate/export.json                                               what is exported, see export_settings.py
    PATH/_tiergate/staging/…                                                 ranges that are not whole yet

Ranges of a partition are committed in their order, and each begins where the one before it ended. Its start alone is
its name, so that of two runs which go on from the same place only one can commit. Where directories can be renamed in
one step, a range is written aside and its rename is the commit. In object stores it is written in place, its file
_tiergate_range.json comes last and is the commit; the next run removes a range without it. Readers pass over names that
begin with an underscore.

What is exported is bound with the first range: its settings are renamed to their place right before it, so that of two
first runs with different ones only one can commit. Before a range is written in place they must be there, and are
replaced as long as no range is whole.

What is in the ranges, and when a run ends, is not decided here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.export_settings import ExportSettings
from tiergate_spark.pipelines.failures import PipelineFailed

CommitBy = Literal["rename", "marker"]

START_OFFSET: Final = "start_offset"
PARTITION: Final = "partition"
MARKER: Final = "_tiergate_range.json"
_VERSION: Final = 1
_OURS: Final = "_tiergate"
_DAY_MS: Final = 24 * 60 * 60 * 1000


class Files(Protocol):
    """What of a file system is used; see `HadoopFiles`."""

    def children(self, path: str) -> list[str]: ...
    def read(self, path: str) -> bytes | None: ...
    def write(self, path: str, content: bytes) -> None: ...
    def make_directory(self, path: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """[start_offset, stop_offset) of a partition."""

    partition: int
    start_offset: int
    stop_offset: int

    @property
    def directory(self) -> str:
        return f"{PARTITION}={self.partition}/{START_OFFSET}={start_name(self.start_offset)}"


def start_name(start_offset: int) -> str:
    return f"{start_offset:020d}"


class ExportDirectory:
    """One run's view of an export."""

    def __init__(self, files: Files, path: str, *, commit_by: CommitBy, now_ms: int) -> None:
        self._files = files
        self._path = path.rstrip("/")
        self._commit_by = commit_by
        self._now_ms = now_ms
        self._unbound: ExportSettings | None = None

    def claim(self, settings: ExportSettings) -> None:
        """Raises PipelineFailed when the directory is of something else; the first range makes it such an export's."""
        stored = self._stored_settings()
        if stored is not None:
            has_ranges = bool(self.committed_directories())
            if stored == settings or has_ranges or self._commit_by == "rename":
                stored.require_same(settings, place=self._path, has_ranges=has_ranges)
            else:
                self._unbound = settings
            return
        foreign = [name for name in self._files.children(self._path) if not name.startswith((".", "_"))]
        if foreign:
            raise PipelineFailed(
                f"{self._path} holds {foreign[0]}, which is of no export; name a new or an empty directory",
                exit_code=ExitCode.REFUSED,
            )
        self._unbound = settings

    def committed_stops(self) -> Mapping[int, int]:
        """Where the ranges of each partition end. Removes what an earlier run has left unfinished."""
        self._remove_old_staging()
        stops = {}
        for partition in _values_of(self._files.children(self._path), PARTITION):
            stop = self._last_stop(partition)
            if stop is not None:
                stops[partition] = stop
        return stops

    def new_staging(self) -> str:
        """Where the next ranges are to be written, in directories by partition and start offset."""
        if self._commit_by == "marker":
            self._bind(by_rename_in=None)
            return self._path
        return f"{self._staging}/{self._now_ms}-{uuid.uuid4().hex}"

    def commit(self, written: OffsetRange, *, staging: str) -> None:
        """Makes a range part of the export. Raises PipelineFailed when another run was faster."""
        source, target = f"{staging}/{written.directory}", f"{self._path}/{written.directory}"
        marker = {"version": _VERSION, "stop_offset": written.stop_offset}
        self._files.make_directory(source)  # Spark makes none for a range without records
        self._files.write(f"{source}/{MARKER}", json.dumps(marker).encode("utf-8"))
        if source == target:
            return
        self._bind(by_rename_in=staging)
        self._files.make_directory(f"{self._path}/{PARTITION}={written.partition}")
        try:
            self._files.rename(source, target)
        except FileExistsError:
            raise PipelineFailed(
                f"{target} was written by another export meanwhile; run it again, one at a time",
                exit_code=ExitCode.REFUSED,
            ) from None

    def discard(self, staging: str) -> None:
        """What is left of a staging directory after its ranges were committed."""
        if staging != self._path:
            self._files.delete(staging)

    def committed_directories(self) -> list[str]:
        """The ranges that readers may see, for those who read while an export by markers is under way."""
        found = []
        for partition in _values_of(self._files.children(self._path), PARTITION):
            starts = _values_of(self._files.children(f"{self._path}/{PARTITION}={partition}"), START_OFFSET)
            ranges = [f"{self._path}/{OffsetRange(partition, start, start).directory}" for start in starts]
            if ranges and self._stop_of(ranges[-1]) is None:  # committed in order: only the last can be unfinished
                ranges.pop()
            found += ranges
        return found

    def _bind(self, *, by_rename_in: str | None) -> None:
        if self._unbound is None:
            return
        if by_rename_in is None:
            self._files.write(self._settings_file, self._unbound.to_json())
        else:
            aside = f"{by_rename_in}/export.json"
            self._files.write(aside, self._unbound.to_json())
            try:
                self._files.rename(aside, self._settings_file)
            except FileExistsError:
                self._require_bound(self._unbound)
        self._unbound = None

    def _require_bound(self, settings: ExportSettings) -> None:
        stored = self._stored_settings()
        if stored is None:  # it is empty: its writer was killed
            self._files.write(self._settings_file, settings.to_json())
        else:
            stored.require_same(settings, place=self._path, has_ranges=True)

    def _stored_settings(self) -> ExportSettings | None:
        content = self._files.read(self._settings_file)
        return ExportSettings.from_json(content, place=self._path) if content else None

    @property
    def _settings_file(self) -> str:
        return f"{self._path}/{_OURS}/export.json"

    def _last_stop(self, partition: int) -> int | None:
        starts = _values_of(self._files.children(f"{self._path}/{PARTITION}={partition}"), START_OFFSET)
        while starts:
            directory = f"{self._path}/{OffsetRange(partition, starts[-1], starts[-1]).directory}"
            stop = self._stop_of(directory)
            if stop is not None:
                return stop
            self._files.delete(directory)
            starts.pop()
        return None

    def _stop_of(self, directory: str) -> int | None:
        """None when the range is not whole: its marker is missing, or was cut when its writer was killed."""
        content = self._files.read(f"{directory}/{MARKER}")
        try:
            marker = json.loads(content or b"")
        except ValueError:
            return None
        if marker["version"] != _VERSION:
            raise PipelineFailed(
                f"{directory} is of version {marker['version']}, this release knows {_VERSION}; use a newer release"
            )
        return int(marker["stop_offset"])

    @property
    def _staging(self) -> str:
        return f"{self._path}/{_OURS}/staging"

    def _remove_old_staging(self) -> None:
        """A younger one may belong to a run that lives; nobody sees it meanwhile."""
        for name in self._files.children(self._staging):
            began_ms, _, _ = name.partition("-")  # file systems put names of their own beside ours, such as .nfs…
            if began_ms.isdecimal() and int(began_ms) < self._now_ms - _DAY_MS:
                self._files.delete(f"{self._staging}/{name}")


def _values_of(names: list[str], column: str) -> list[int]:
    """The numbers in names such as partition=3, ascending."""
    return sorted(int(name.removeprefix(f"{column}=")) for name in names if name.startswith(f"{column}="))
