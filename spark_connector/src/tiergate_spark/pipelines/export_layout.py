"""How an export lies in its directory, so that every offset is in it once, whatever was killed when.

    PATH/partition=0/start_offset=00000000000000000000/part-….parquet        a range of offsets of one partition
    PATH/partition=0/start_offset=00000000000000000000/_tiergate_range.json  says where it ends, and that it is whole
    PATH/_tiergate/export.json                                               what is exported, see export_settings.py
    PATH/_tiergate/staging/…                                                 ranges that are not whole yet

A range mostly begins where the one before it ended. It does not where the tier had nothing in between, or before it:
that is a gap, and ranges that are committed later fill it. A range's start alone is its name, so that of two runs which
go on from the same place only one can commit. Where directories can be renamed in one step, a range is written aside
and its rename is the commit. In object stores it is written in place, its file _tiergate_range.json comes last and is
the commit; the next run removes a range without it. Readers pass over names that begin with an underscore.

What a range's file says, so that not all need be read, is told in `export_marker.py`; how a range is written aside, in
`export_staging.py`.

What is exported is bound with the first range: its settings are renamed to their place right before it, so that of two
first runs with different ones only one can commit. Before a range is written in place they must be there, and are
replaced as long as no range is whole.

What is in the ranges, and when a run ends, is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tiergate_client.clock import Clock
from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.export_coverage import Coverage, Run
from tiergate_spark.pipelines.export_files import Files
from tiergate_spark.pipelines.export_marker import MARKER, RangeMarker
from tiergate_spark.pipelines.export_settings import ExportSettings
from tiergate_spark.pipelines.export_staging import Staging
from tiergate_spark.pipelines.failures import PipelineFailed

CommitBy = Literal["rename", "marker"]

START_OFFSET: Final = "start_offset"
PARTITION: Final = "partition"
_OURS: Final = "_tiergate"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """[start_offset, stop_offset) of a partition."""

    partition: int
    start_offset: int
    stop_offset: int

    @property
    def run(self) -> Run:
        return self.start_offset, self.stop_offset

    @property
    def directory(self) -> str:
        return f"{PARTITION}={self.partition}/{START_OFFSET}={start_name(self.start_offset)}"


def start_name(start_offset: int) -> str:
    return f"{start_offset:020d}"


@dataclass(frozen=True, slots=True)
class _Found:
    """What is there of a partition, by the start offsets of its ranges."""

    covered: Coverage
    whole: list[int]
    unfinished: list[int]


class ExportDirectory:
    """One run's view of an export."""

    def __init__(self, files: Files, path: str, *, commit_by: CommitBy, clock: Clock) -> None:
        self._files = files
        self._path = path.rstrip("/")
        self._commit_by = commit_by
        self._staging = Staging(files, f"{self._path}/{_OURS}/staging", clock=clock)
        self._unbound: ExportSettings | None = None
        self._covered: dict[int, Coverage] = {}
        self._skipped: dict[int, tuple[Run, ...]] = {}

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

    def committed(self) -> Mapping[int, Coverage]:
        """What is exported of each partition. Removes what an earlier run has left unfinished."""
        self._staging.remove_old()
        for partition in self._partitions():
            found = self._look(partition)
            for start in found.unfinished:
                self._files.delete(self._directory(partition, start))
            if found.whole:
                self._covered[partition] = found.covered
        return dict(self._covered)

    def skip(self, partition: int, missing: Iterable[Run]) -> None:
        """Offsets that the user goes on without. Later runs know of it once the next range is committed."""
        self._skipped[partition] = (*self._skipped.get(partition, ()), *missing)

    def new_staging(self) -> str:
        """Where the ranges of the next wave are to be written, in directories by partition and start offset."""
        if self._commit_by == "marker":
            self._bind(by_rename_in=None)
            return self._path
        return self._staging.begin()

    def commit(self, ranges: Iterable[OffsetRange], *, staging: str) -> None:
        """Makes the ranges of a wave part of the export, one after another.

        Raises PipelineFailed when another run was faster with one of them, or has removed what was written.
        """
        if self._commit_by == "marker":
            for one in ranges:
                self._write_marker(one, place=staging)
            return
        staging = self._staging.written(staging)
        for one in ranges:
            self._write_marker(one, place=staging)
            self._bind(by_rename_in=staging)
            self._move(one, staging=staging)
        self._files.delete(staging)

    def committed_directories(self) -> list[str]:
        """The ranges that readers may see, for those who read while an export by markers is under way."""
        return [
            self._directory(partition, start)
            for partition in self._partitions()
            for start in self._look(partition).whole
        ]

    def _write_marker(self, written: OffsetRange, *, place: str) -> None:
        covered = self._known(written.partition)
        if covered.overlaps(written.run):
            raise self._faster(written)
        covered_from, _ = covered.run_up_to(written.start_offset)
        marker = RangeMarker(written.stop_offset, covered_from, covered.skipped)
        directory = f"{place}/{written.directory}"
        self._files.make_directory(directory)  # Spark makes none for a range without records
        self._files.write(f"{directory}/{MARKER}", marker.to_json())
        self._covered[written.partition] = covered.with_run(written.run)

    def _known(self, partition: int) -> Coverage:
        """In object stores as this run knows it: a look is dear there, and would not keep two runs apart."""
        if self._commit_by == "rename" or partition not in self._covered:
            self._covered[partition] = self._look(partition).covered
        return self._covered[partition].with_skipped(self._skipped.get(partition, ()))

    def _move(self, written: OffsetRange, *, staging: str) -> None:
        self._files.make_directory(f"{self._path}/{PARTITION}={written.partition}")
        try:
            self._files.rename(f"{staging}/{written.directory}", f"{self._path}/{written.directory}")
        except FileExistsError:
            raise self._faster(written) from None

    def _faster(self, written: OffsetRange) -> PipelineFailed:
        return PipelineFailed(
            f"{self._path}/{written.directory} was written by another export meanwhile; run it again, one at a time",
            exit_code=ExitCode.REFUSED,
        )

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

    def _partitions(self) -> list[int]:
        return _values_of(self._files.children(self._path), PARTITION)

    def _look(self, partition: int) -> _Found:
        """Asks few of the markers. What was committed last is always asked: no other could have told of it."""
        starts = _values_of(self._files.children(f"{self._path}/{PARTITION}={partition}"), START_OFFSET)
        runs: list[Run] = []
        skipped: list[Run] = []
        unfinished = []
        for start in reversed(starts):
            if runs and start >= runs[-1][0]:
                continue
            directory = self._directory(partition, start)
            marker = RangeMarker.from_json(self._files.read(f"{directory}/{MARKER}"), place=directory)
            if marker is None:
                unfinished.append(start)
            else:
                runs.append((marker.covered_from_offset, marker.stop_offset))
                skipped += marker.skipped
        whole = sorted(set(starts) - set(unfinished))
        return _Found(Coverage.of(runs, skipped=skipped), whole, unfinished)

    def _directory(self, partition: int, start: int) -> str:
        return f"{self._path}/{OffsetRange(partition, start, start).directory}"


def _values_of(names: list[str], column: str) -> list[int]:
    """The numbers in names such as partition=3, ascending."""
    return sorted(int(name.removeprefix(f"{column}=")) for name in names if name.startswith(f"{column}="))
