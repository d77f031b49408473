"""An export's directory under crashes at every step, on plain directories; the records are names of files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_spark.pipelines.export_coverage import Coverage, without
from tiergate_spark.pipelines.export_layout import CommitBy, ExportDirectory, OffsetRange
from tiergate_spark.pipelines.export_marker import MARKER
from tiergate_spark.pipelines.export_settings import ExportSettings
from tiergate_spark.pipelines.failures import PipelineFailed

_NOW_MS = 1000
_HOUR_MS = 60 * 60 * 1000
_SETTINGS = ExportSettings("orders", "AAAAAAAAAAAAAAAAAAAAAQ", "parquet", ("date",), "read_committed", True, None, 5)


class Killed(Exception):
    """The process is no more."""


class PlainFiles:
    """`Files` of this machine, whose process is killed before the operation of that number, or in the midst of it."""

    def __init__(self, kill_at: int | None = None, *, halfway: bool = False) -> None:
        self._left = kill_at
        self._halfway = halfway

    def _step(self) -> bool:
        """Whether to do only half of it."""
        if self._left is None:
            return False
        self._left -= 1
        if self._left < 0 and not self._halfway:
            raise Killed
        return self._left < 0

    def children(self, path: str) -> list[str]:
        return sorted(one.name for one in Path(path).iterdir()) if Path(path).is_dir() else []

    def read(self, path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).is_file() else None

    def write(self, path: str, content: bytes) -> None:
        half = self._step()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content[: len(content) // 2] if half else content)
        if half:
            raise Killed

    def make_directory(self, path: str) -> None:
        self._step()
        Path(path).mkdir(parents=True, exist_ok=True)

    def delete(self, path: str) -> None:
        if self._step():
            for file in sorted(one for one in Path(path).rglob("*") if one.is_file())[-1:]:
                file.unlink()
            raise Killed
        if Path(path).is_file():
            Path(path).unlink()
        shutil.rmtree(path, ignore_errors=True)

    def rename(self, source: str, target: str) -> None:
        if self._step():
            raise Killed
        if Path(target).exists():
            raise FileExistsError(target)
        Path(source).rename(target)


def export_directory(
    path: Path, files: PlainFiles | None = None, *, commit_by: CommitBy = "rename", now_ms: int = _NOW_MS
) -> ExportDirectory:
    return ExportDirectory(files or PlainFiles(), str(path), commit_by=commit_by, clock=lambda: now_ms)


def run_export(path: Path, files: PlainFiles, commit_by: CommitBy, tiered: Tiered, *, step: int) -> None:
    """What the pipeline does, with offsets as files: each wave a range of every partition."""
    directory = export_directory(path, files, commit_by=commit_by)
    directory.claim(_SETTINGS)
    covered = directory.committed()
    for wave in waves(tiered, covered, step=step):
        staging = directory.new_staging()
        write_wave(files, staging, wave)
        directory.commit(wave, staging=staging)


Tiered = dict[int, list[tuple[int, int]]]


def waves(tiered: Tiered, covered: Mapping[int, Coverage], *, step: int) -> list[list[OffsetRange]]:
    """What is tiered and not covered, by pieces of at most so many offsets, one of each partition in a wave."""
    pieces = {
        number: [
            OffsetRange(number, first, min(first + step, stop))
            for run in runs
            for start, stop in without(run, covered[number].runs if number in covered else ())
            for first in range(start, stop, step)
        ]
        for number, runs in tiered.items()
    }
    return [[one for one in wave if one is not None] for wave in zip_longest(*pieces.values())]


def write_wave(files: PlainFiles, staging: str, wave: Iterable[OffsetRange]) -> None:
    for one in wave:
        for offset in range(one.start_offset, one.stop_offset):
            files.write(f"{staging}/{one.directory}/{offset}", b"a record")


def visible(path: Path) -> list[tuple[int, int]]:
    """Partition and offset of all that a plain reader sees."""
    files = [one.relative_to(path) for one in path.rglob("*") if one.is_file()]
    shown = [one for one in files if not any(part.startswith("_") for part in one.parts)]
    return sorted((int(one.parts[0].partition("=")[2]), int(one.name)) for one in shown)


def committed(path: Path) -> list[tuple[int, int]]:
    directory = export_directory(path, commit_by="marker")
    return sorted(
        (int(Path(one).parent.name.partition("=")[2]), int(file.name))
        for one in directory.committed_directories()
        for file in Path(one).iterdir()
        if file.name != MARKER
    )


@st.composite
def more_tiered(draw: st.DrawFn, before: Tiered) -> Tiered:
    """Some of the pieces that were missing: segments need not be finished in their order."""
    tiered = {}
    for number, runs in before.items():
        missing = [one for one in PIECES if one not in runs]
        tiered[number] = sorted([*runs, *draw(st.lists(st.sampled_from(missing or PIECES), max_size=3, unique=True))])
        tiered[number] = sorted(set(tiered[number]))
    return tiered


PIECES = [(0, 2), (2, 3), (3, 7), (7, 9)]


@given(data=st.data())
def test_every_offset_is_exported_once_whatever_was_killed_when_and_tiered_in_whatever_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("exports") / "export"
    commit_by: CommitBy = data.draw(st.sampled_from(["rename", "marker"]))
    tiered: Tiered = {0: [], 3: []}
    for _ in range(data.draw(st.integers(1, 4), label="runs")):
        tiered = data.draw(more_tiered(tiered), label="tiered")
        kill_at, halfway = data.draw(st.integers(0, 40), label="kill at"), data.draw(st.booleans(), label="halfway")
        before = committed(path)
        try:
            files = PlainFiles(kill_at, halfway=halfway)
            run_export(path, files, commit_by, tiered, step=data.draw(st.integers(1, 3), label="step"))
        except (Killed, PipelineFailed):
            settle_settings(path)
        if commit_by == "rename":
            assert visible(path) == committed(path)
        found = committed(path)
        assert len(set(found)) == len(found)
        assert set(before) <= set(found) <= all_offsets(tiered)
        covered = export_directory(path, commit_by=commit_by).committed()
        assert {
            (number, offset) for number, known in covered.items() for run in known.runs for offset in range(*run)
        } == set(found)
    run_export(path, PlainFiles(), commit_by, tiered, step=2)
    assert visible(path) == committed(path) == sorted(all_offsets(tiered))


def all_offsets(tiered: Tiered) -> set[tuple[int, int]]:
    return {(number, offset) for number, runs in tiered.items() for run in runs for offset in range(*run)}


def test_few_markers_are_read_of_an_export_without_gaps(tmp_path: Path) -> None:
    """An export has many ranges, and in an object store each look takes a while."""
    run_export(tmp_path, PlainFiles(), "marker", {0: [(0, 40)]}, step=2)
    run_export(tmp_path, PlainFiles(), "marker", {0: [(50, 60)]}, step=2)

    class CountingFiles(PlainFiles):
        asked = 0

        def read(self, path: str) -> bytes | None:
            self.asked += path.endswith(MARKER)
            return super().read(path)

    files = CountingFiles()
    assert export_directory(tmp_path, files).committed() == {0: Coverage.of([(0, 40), (50, 60)])}
    assert files.asked == 2


def test_ranges_that_somebody_has_removed_are_not_exported_again(tmp_path: Path) -> None:
    run_export(tmp_path, PlainFiles(), "rename", {0: [(0, 10)]}, step=2)
    shutil.rmtree(tmp_path / OffsetRange(0, 0, 2).directory)
    assert export_directory(tmp_path).committed() == {0: Coverage.of([(0, 10)])}


def test_what_is_skipped_is_remembered_until_it_is_filled_in(tmp_path: Path) -> None:
    directory = export_directory(tmp_path)
    directory.skip(0, [(3, 6), (8, 9)])
    directory.commit([OffsetRange(0, 0, 3)], staging=directory.new_staging())
    for one in (OffsetRange(0, 6, 7), OffsetRange(0, 7, 8), OffsetRange(0, 4, 6)):  # each by a run of its own
        later = export_directory(tmp_path)
        later.committed()
        later.commit([one], staging=later.new_staging())
    assert export_directory(tmp_path).committed() == {0: Coverage.of([(0, 3), (4, 8)], skipped=[(3, 4), (8, 9)])}


def settle_settings(path: Path) -> None:
    """Settings that were cut when their writer was killed are refused, with the advice to remove them."""
    file = path / "_tiergate" / "export.json"
    try:
        json.loads(file.read_bytes() or b"{}")
    except FileNotFoundError:
        return
    except ValueError:
        directory = export_directory(path)
        with pytest.raises(PipelineFailed, match=r"cannot be read.*remove"):
            directory.claim(_SETTINGS)
        file.unlink()


@pytest.mark.parametrize("second_range", [OffsetRange(0, 5, 12), OffsetRange(0, 2, 6), OffsetRange(0, 8, 12)])
def test_of_two_runs_that_export_the_same_offset_only_one_commits(tmp_path: Path, second_range: OffsetRange) -> None:
    first, second = export_directory(tmp_path / "export"), export_directory(tmp_path / "export")
    stagings = first.new_staging(), second.new_staging()
    first.commit([OffsetRange(0, 5, 9)], staging=stagings[0])
    with pytest.raises(PipelineFailed, match="another export"):
        second.commit([second_range], staging=stagings[1])
    assert first.committed() == {0: Coverage.of([(5, 9)])}


def test_of_two_runs_that_see_no_range_of_each_other_only_one_commits(tmp_path: Path) -> None:
    """What a look can not tell, the rename does."""

    class BlindFiles(PlainFiles):
        def children(self, path: str) -> list[str]:
            return [one for one in super().children(path) if "=" not in one]

    first, second = export_directory(tmp_path), export_directory(tmp_path, BlindFiles())
    first.commit([OffsetRange(0, 5, 9)], staging=first.new_staging())
    with pytest.raises(PipelineFailed, match="another export"):
        second.commit([OffsetRange(0, 5, 12)], staging=second.new_staging())
    assert first.committed() == {0: Coverage.of([(5, 9)])}


def test_staging_of_others_is_removed_after_a_day(tmp_path: Path) -> None:
    for now_ms, is_there in ((1000, True), (1000 + 86_400_000, True), (1001 + 86_400_000, False)):
        (tmp_path / "_tiergate" / "staging" / "1000-abc").mkdir(parents=True, exist_ok=True)
        export_directory(tmp_path, now_ms=now_ms).committed()
        assert (tmp_path / "_tiergate" / "staging" / "1000-abc").exists() is is_there


def test_wave_of_a_run_that_began_days_ago_is_left_alone_by_others(tmp_path: Path) -> None:
    now_ms = _NOW_MS
    run = ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", clock=lambda: now_ms)
    run.claim(_SETTINGS)
    run.committed()
    now_ms += 50 * _HOUR_MS
    staging, wave = run.new_staging(), [OffsetRange(0, 0, 3)]
    write_wave(PlainFiles(), staging, wave)
    now_ms += 23 * _HOUR_MS
    export_directory(tmp_path, now_ms=now_ms).committed()
    run.commit(wave, staging=staging)
    assert visible(tmp_path) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("written_later", [True, False])
def test_wave_that_was_removed_while_it_was_written_is_not_committed(tmp_path: Path, written_later: bool) -> None:
    run = export_directory(tmp_path)
    staging, wave = run.new_staging(), [OffsetRange(0, 0, 3), OffsetRange(1, 0, 2)]
    write_wave(PlainFiles(), staging, wave[:1])
    export_directory(tmp_path, now_ms=_NOW_MS + 25 * _HOUR_MS).committed()
    if written_later:  # as tasks do that know of nothing
        write_wave(PlainFiles(), staging, wave[1:])
    with pytest.raises(PipelineFailed, match=r"removed while it was written.*run it again"):
        run.commit(wave, staging=staging)
    assert run.committed() == {}
    assert visible(tmp_path) == []


@pytest.mark.parametrize("kill_at", [0, 1, 2])
@pytest.mark.parametrize("halfway", [True, False])
def test_wave_that_somebody_has_begun_to_remove_is_committed_whole_or_not_at_all(
    tmp_path: Path, kill_at: int, halfway: bool
) -> None:
    run = export_directory(tmp_path)
    staging, wave = run.new_staging(), [OffsetRange(0, 0, 3)]
    write_wave(PlainFiles(), staging, wave)
    with suppress(Killed):
        remover = PlainFiles(kill_at, halfway=halfway)
        export_directory(tmp_path, remover, now_ms=_NOW_MS + 25 * _HOUR_MS).committed()
    with suppress(PipelineFailed):
        run.commit(wave, staging=staging)
    assert visible(tmp_path) == committed(tmp_path)
    assert visible(tmp_path) == ([(0, 0), (0, 1), (0, 2)] if kill_at == 0 else [])


def test_wave_is_young_again_while_it_is_committed(tmp_path: Path) -> None:
    """Ranges are moved one after another, and others may look in meanwhile."""
    late_ms = _NOW_MS + 25 * _HOUR_MS
    wave = [OffsetRange(0, 0, 3), OffsetRange(1, 0, 2)]

    class LookedInto(PlainFiles):
        def write(self, path: str, content: bytes) -> None:
            super().write(path, content)
            if path.endswith(MARKER):
                export_directory(tmp_path, now_ms=late_ms).committed()

    now_ms = _NOW_MS
    files = LookedInto()
    run = ExportDirectory(files, str(tmp_path), commit_by="rename", clock=lambda: now_ms)
    staging = run.new_staging()
    write_wave(files, staging, wave)
    now_ms = late_ms
    run.commit(wave, staging=staging)
    assert visible(tmp_path) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_range_without_records_is_committed_all_the_same(tmp_path: Path, commit_by: CommitBy) -> None:
    directory = export_directory(tmp_path, commit_by=commit_by)
    directory.commit([OffsetRange(0, 0, 9)], staging=directory.new_staging())
    assert export_directory(tmp_path, commit_by=commit_by).committed() == {0: Coverage.of([(0, 9)])}


def test_foreign_name_beside_the_staging_of_runs_is_left_alone(tmp_path: Path) -> None:
    staging = tmp_path / "_tiergate" / "staging"
    for name in (".DS_Store", ".nfs0000-1", "1000-abc"):
        (staging / name).mkdir(parents=True)
    export_directory(tmp_path, now_ms=10**12).committed()
    assert sorted(one.name for one in staging.iterdir()) == [".DS_Store", ".nfs0000-1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "orc"}, "format parquet, not orc"),
        ({"partition_by": ()}, "partition by date, not none"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAg"}, "topic id"),
        ({"from_time_ms": None}, "from time ms 5, not none"),
    ],
)
def test_export_of_something_else_into_the_same_directory_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    directory = export_directory(tmp_path)
    directory.claim(_SETTINGS)
    directory.commit([OffsetRange(0, 0, 9)], staging=directory.new_staging())
    directory.claim(_SETTINGS)
    with pytest.raises(PipelineFailed, match=f"{message}.*name another directory"):
        directory.claim(replace(_SETTINGS, **change))


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_run_that_committed_nothing_binds_the_next_one_to_nothing(tmp_path: Path, commit_by: CommitBy) -> None:
    other = replace(_SETTINGS, format="csv")
    failed = export_directory(tmp_path, commit_by=commit_by)
    failed.claim(other)
    PlainFiles().write(f"{failed.new_staging()}/{OffsetRange(0, 0, 9).directory}/0", b"a record")
    run_export(tmp_path, PlainFiles(), commit_by, {0: [(0, 3)]}, step=2)
    assert visible(tmp_path) == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(PipelineFailed, match="format parquet, not csv"):
        failed.claim(other)


def test_of_two_first_runs_with_different_settings_only_one_commits(tmp_path: Path) -> None:
    first, second = export_directory(tmp_path), export_directory(tmp_path)
    first.claim(_SETTINGS)
    second.claim(replace(_SETTINGS, format="csv"))
    first.commit([OffsetRange(0, 0, 9)], staging=first.new_staging())
    with pytest.raises(PipelineFailed, match="format parquet, not csv"):
        second.commit([OffsetRange(1, 0, 9)], staging=second.new_staging())
    assert first.committed() == {0: Coverage.of([(0, 9)])}


def test_settings_without_a_range_are_refused_with_the_way_out(tmp_path: Path) -> None:
    PlainFiles().write(f"{tmp_path}/_tiergate/export.json", replace(_SETTINGS, format="csv").to_json())
    with pytest.raises(PipelineFailed, match=r"remove .*/_tiergate/export\.json if no other export runs"):
        export_directory(tmp_path).claim(_SETTINGS)


def test_directory_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(PipelineFailed, match=r"holds mine\.parquet"):
        export_directory(tmp_path).claim(_SETTINGS)


@pytest.mark.parametrize("file", ["_tiergate/export.json", f"partition=0/start_offset={0:020}/{MARKER}"])
def test_newer_version_is_refused_by_name(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text('{"version": 2}')
    directory = export_directory(tmp_path)
    with pytest.raises(PipelineFailed, match="version 2"):
        directory.claim(_SETTINGS) if "export" in file else directory.committed()
