"""An export's directory under crashes at every step, on plain directories; the records are names of files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_spark.pipelines.export_layout import MARKER, CommitBy, ExportDirectory, OffsetRange
from tiergate_spark.pipelines.export_settings import ExportSettings
from tiergate_spark.pipelines.failures import PipelineFailed

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
            for file in list(Path(path).rglob("*"))[:1]:
                file.unlink() if file.is_file() else None
            raise Killed
        shutil.rmtree(path, ignore_errors=True)

    def rename(self, source: str, target: str) -> None:
        if self._step():
            raise Killed
        if Path(target).exists():
            raise FileExistsError(target)
        Path(source).rename(target)


def run_export(path: Path, files: PlainFiles, commit_by: CommitBy, ends: dict[int, int], *, step: int) -> None:
    """What the pipeline does, with offsets as files: each wave a range of every partition."""
    directory = ExportDirectory(files, str(path), commit_by=commit_by, now_ms=1000)
    directory.claim(_SETTINGS)
    stops = dict(directory.committed_stops())
    while True:
        wave = [
            OffsetRange(number, stops.get(number, 0), min(end, stops.get(number, 0) + step))
            for number, end in ends.items()
            if stops.get(number, 0) < end
        ]
        if not wave:
            return
        staging = directory.new_staging()
        for one in wave:
            for offset in range(one.start_offset, one.stop_offset):
                files.write(f"{staging}/{one.directory}/{offset}", b"a record")
        for one in wave:
            directory.commit(one, staging=staging)
            stops[one.partition] = one.stop_offset
        directory.discard(staging)


def visible(path: Path) -> list[tuple[int, int]]:
    """Partition and offset of all that a plain reader sees."""
    files = [one.relative_to(path) for one in path.rglob("*") if one.is_file()]
    shown = [one for one in files if not any(part.startswith("_") for part in one.parts)]
    return sorted((int(one.parts[0].partition("=")[2]), int(one.name)) for one in shown)


def committed(path: Path) -> list[tuple[int, int]]:
    directory = ExportDirectory(PlainFiles(), str(path), commit_by="marker", now_ms=1000)
    return sorted(
        (int(Path(one).parent.name.partition("=")[2]), int(file.name))
        for one in directory.committed_directories()
        for file in Path(one).iterdir()
        if file.name != MARKER
    )


@given(data=st.data())
def test_every_offset_is_exported_once_whatever_was_killed_when(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("exports") / "export"
    commit_by: CommitBy = data.draw(st.sampled_from(["rename", "marker"]))
    ends = {0: 0, 3: 0}
    for _ in range(data.draw(st.integers(1, 4), label="runs")):
        ends = {number: end + data.draw(st.integers(0, 4), label="tiered") for number, end in ends.items()}
        kill_at, halfway = data.draw(st.integers(0, 30), label="kill at"), data.draw(st.booleans(), label="halfway")
        files = PlainFiles(kill_at, halfway=halfway)
        try:
            run_export(path, files, commit_by, ends, step=data.draw(st.integers(1, 3), label="step"))
        except (Killed, PipelineFailed):
            settle_settings(path)
        if commit_by == "rename":
            assert visible(path) == committed(path)
        for number in ends:  # always the first so many
            found = [offset for partition, offset in committed(path) if partition == number]
            assert found == list(range(len(found)))
    run_export(path, PlainFiles(), commit_by, ends, step=2)
    expected = sorted((number, offset) for number, end in ends.items() for offset in range(end))
    assert visible(path) == committed(path) == expected


def settle_settings(path: Path) -> None:
    """Settings that were cut when their writer was killed are refused, with the advice to remove them."""
    file = path / "_tiergate" / "export.json"
    try:
        json.loads(file.read_bytes() or b"{}")
    except FileNotFoundError:
        return
    except ValueError:
        directory = ExportDirectory(PlainFiles(), str(path), commit_by="rename", now_ms=1000)
        with pytest.raises(PipelineFailed, match=r"cannot be read.*remove"):
            directory.claim(_SETTINGS)
        file.unlink()


def test_of_two_runs_from_the_same_place_only_one_commits(tmp_path: Path) -> None:
    first, second = (
        ExportDirectory(PlainFiles(), str(tmp_path / "export"), commit_by="rename", now_ms=1000) for _ in range(2)
    )
    stagings = first.new_staging(), second.new_staging()
    first.commit(OffsetRange(0, 5, 9), staging=stagings[0])
    with pytest.raises(PipelineFailed, match="another export"):
        second.commit(OffsetRange(0, 5, 12), staging=stagings[1])
    assert first.committed_stops() == {0: 9}


def test_staging_of_others_is_removed_after_a_day(tmp_path: Path) -> None:
    for now_ms, is_there in ((1000, True), (1000 + 86_400_000, True), (1001 + 86_400_000, False)):
        (tmp_path / "_tiergate" / "staging" / "1000-abc").mkdir(parents=True, exist_ok=True)
        ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=now_ms).committed_stops()
        assert (tmp_path / "_tiergate" / "staging" / "1000-abc").exists() is is_there


def test_foreign_name_beside_the_staging_of_runs_is_left_alone(tmp_path: Path) -> None:
    staging = tmp_path / "_tiergate" / "staging"
    for name in (".DS_Store", ".nfs0000-1", "1000-abc"):
        (staging / name).mkdir(parents=True)
    ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=10**12).committed_stops()
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
    directory = ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=1000)
    directory.claim(_SETTINGS)
    directory.commit(OffsetRange(0, 0, 9), staging=directory.new_staging())
    directory.claim(_SETTINGS)
    with pytest.raises(PipelineFailed, match=f"{message}.*name another directory"):
        directory.claim(replace(_SETTINGS, **change))


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_run_that_committed_nothing_binds_the_next_one_to_nothing(tmp_path: Path, commit_by: CommitBy) -> None:
    other = replace(_SETTINGS, format="csv")
    failed = ExportDirectory(PlainFiles(), str(tmp_path), commit_by=commit_by, now_ms=1000)
    failed.claim(other)
    PlainFiles().write(f"{failed.new_staging()}/{OffsetRange(0, 0, 9).directory}/0", b"a record")
    run_export(tmp_path, PlainFiles(), commit_by, {0: 3}, step=2)
    assert visible(tmp_path) == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(PipelineFailed, match="format parquet, not csv"):
        failed.claim(other)


def test_of_two_first_runs_with_different_settings_only_one_commits(tmp_path: Path) -> None:
    first, second = (ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=1000) for _ in range(2))
    first.claim(_SETTINGS)
    second.claim(replace(_SETTINGS, format="csv"))
    first.commit(OffsetRange(0, 0, 9), staging=first.new_staging())
    with pytest.raises(PipelineFailed, match="format parquet, not csv"):
        second.commit(OffsetRange(1, 0, 9), staging=second.new_staging())
    assert first.committed_stops() == {0: 9}


def test_settings_without_a_range_are_refused_with_the_way_out(tmp_path: Path) -> None:
    PlainFiles().write(f"{tmp_path}/_tiergate/export.json", replace(_SETTINGS, format="csv").to_json())
    with pytest.raises(PipelineFailed, match=r"remove .*/_tiergate/export\.json if no other export runs"):
        ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=1000).claim(_SETTINGS)


def test_directory_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(PipelineFailed, match=r"holds mine\.parquet"):
        ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=1000).claim(_SETTINGS)


@pytest.mark.parametrize("file", ["_tiergate/export.json", f"partition=0/start_offset={0:020}/{MARKER}"])
def test_newer_version_is_refused_by_name(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text('{"version": 2}')
    directory = ExportDirectory(PlainFiles(), str(tmp_path), commit_by="rename", now_ms=1000)
    with pytest.raises(PipelineFailed, match="version 2"):
        directory.claim(_SETTINGS) if "export" in file else directory.committed_stops()
