"""Which places a report may take, on plain directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.reports import require_free

_PART = "part-00000-6b2c1e0a-3f5d-4c55-9a39-0d7c9e1a7c55-c000.snappy.parquet"


class PlainFiles:
    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_directory(self, path: str) -> bool:
        return Path(path).is_dir()

    def children(self, path: str) -> list[str]:
        return [one.name for one in Path(path).iterdir()]


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["_tiergate_unfinished"],
        ["_tiergate_unfinished", "_temporary"],
        ["_tiergate_unfinished", "_temporary", _PART, f".{_PART}.crc"],
        ["_tiergate_unfinished", "_SUCCESS", _PART],
    ],
)
def test_place_of_a_report_that_was_not_finished_may_be_taken(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    require_free(PlainFiles(), str(tmp_path))


@pytest.mark.parametrize(
    "names",
    [
        ["_SUCCESS", _PART],
        [_PART],  # of a Spark that leaves no _SUCCESS, or of another tool
        ["_temporary", _PART],  # of a job that others run
        ["_tiergate_unfinished", "_temporary", "mine.txt"],
    ],
)
def test_place_of_something_else_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(PipelineFailed, match="exists already; remove it, or name a new directory") as refused:
        require_free(PlainFiles(), str(tmp_path))
    assert refused.value.exit_code is ExitCode.REFUSED


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineFailed, match="exists already"):
        require_free(PlainFiles(), str(tmp_path / "file"))
    require_free(PlainFiles(), str(tmp_path / "nothing"))
