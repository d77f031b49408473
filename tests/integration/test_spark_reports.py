"""Reports on a real Spark: one that was killed is written again, and nothing else is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.hadoop_files import HadoopFiles
from tiergate_spark.pipelines.reports import require_new_report, write_report

pytestmark = pytest.mark.timeout(300)


def test_report_whose_write_failed_is_written_again_and_then_kept(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "report")
    rows = spark.range(10, numPartitions=2)
    failing = rows.select(F.when(F.col("id") < 9, F.col("id")).otherwise(F.raise_error(F.lit("no more"))).alias("id"))
    with pytest.raises(PySparkException, match="no more"):
        write_report(failing, path, format="parquet")
    assert (tmp_path / "report").exists()
    require_new_report(spark, path)
    write_report(rows, path, format="parquet")
    assert sorted(row.id for row in spark.read.parquet(path).collect()) == list(range(10))
    assert (tmp_path / "report" / "_SUCCESS").exists()
    with pytest.raises(PipelineFailed, match="exists already"):
        require_new_report(spark, path)
    with pytest.raises(PipelineFailed, match="exists already"):
        write_report(rows, path, format="parquet")
    assert spark.read.parquet(path).count() == 10


@pytest.mark.parametrize("step", ["write", "read", "delete"])
def test_report_that_was_killed_at_any_step_is_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, rows = str(tmp_path / "report"), spark.range(10)

    def killed(self: HadoopFiles, place: str, *_: object) -> None:
        if place.endswith("_tiergate_unfinished"):
            raise MemoryError("the driver is no more")

    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, step, killed)
        with pytest.raises(MemoryError):
            write_report(rows, path, format="parquet")
    write_report(rows, path, format="parquet")
    assert spark.read.parquet(path).count() == 10


def test_report_into_which_another_one_was_written_is_not_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = str(tmp_path / "report"), HadoopFiles.read

    def read_late(self: HadoopFiles, place: str) -> bytes | None:
        self.write(place, b"that of another")
        return read(self, place)

    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, "read", read_late)
        with pytest.raises(PipelineFailed, match="one at a time"):
            write_report(spark.range(10), path, format="parquet")
    require_new_report(spark, path)
