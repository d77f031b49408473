"""`export` on a real Spark and real planes: each record is in the files once, over runs, crashes and new segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from support.gated_proxy import gated_proxy
from support.passing_outages import away_once
from support.planes import Planes, running_planes
from support.s3_server import Bucket
from support.spark_commands import interrupt_when, kill_when, spark_command
from support.tiering import tier_segments
from tiergate_client import Tiergate, connect
from tiergate_client.clock import system_clock
from tiergate_client.errors import OffsetOutOfRange, TopicNotFound
from tiergate_client.exit_codes import ExitCode
from tiergate_client.local_log import PartitionDirectory
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.segment_lifecycle import delete_segment
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark import register
from tiergate_spark.options import Service
from tiergate_spark.pipelines import export_plan, outage_patience
from tiergate_spark.pipelines.export import ExportOptions, export, read_export
from tiergate_spark.pipelines.export_layout import CommitBy
from tiergate_spark.pipelines.export_marker import MARKER
from tiergate_spark.pipelines.export_ranges import Wave, divided
from tiergate_spark.pipelines.failures import PipelineFailed, describe
from tiergate_spark.pipelines.hadoop_files import HadoopFiles

pytestmark = pytest.mark.timeout(300)

_COLUMNS = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_SMALL = 64 * 1024
HOLD_AFTER_BYTES = 512 * 1024
"""Of what a worker is sent: some waves of the two megabytes that two of them export."""


@pytest.fixture
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as client:
        yield client


def two_partitions(parent: Path, topic: str, *, segments: int = 6, segment_bytes: int = 32 * 1024) -> list[Path]:
    """Directories of one topic: they have the same id, and records of their own."""
    first = write_sample(parent, topic=topic, segments=segments, segment_bytes=segment_bytes).directory
    second = write_sample(parent / "b", topic=topic, segments=segments, segment_bytes=segment_bytes, seed=1).directory
    (second / "partition.metadata").write_bytes((first / "partition.metadata").read_bytes())
    return [first, second.rename(parent / f"{topic}-1")]


def options_for(target: str, **chosen: Any) -> ExportOptions:
    return ExportOptions(Service(target, None, "auto"), **{"wave_bytes": _SMALL, **chosen})


def table(frame: DataFrame) -> Any:
    return frame.select(*_COLUMNS).toArrow().sort_by([("partition", "ascending"), ("offset", "ascending")])


def in_the_tier(
    spark: SparkSession, target: str, topic: str, isolation: str = "read_uncommitted", **options: str
) -> Any:
    register(spark)
    reader = spark.read.format("tiergate").options(target=target, subscribe=topic, includeHeaders="true", **options)
    return table(reader.option("kafka.isolation.level", isolation).load())


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_each_run_exports_what_was_tiered_since_the_last(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path, commit_by: CommitBy
) -> None:
    topic, path = f"export-{commit_by}", str(tmp_path / "export")
    directories = two_partitions(tmp_path, topic)
    options = options_for(planes.target, partition_by=("date",), commit_by=commit_by)
    records = 0
    for number in range(3):
        if number < 2:
            for directory in directories:
                tier_segments(tiergate, directory, first=_tiered_stop(tiergate, directory), limit=3)
        summary = export(spark, topic, path, options=options)
        records += summary.records
        expected = in_the_tier(spark, planes.target, topic)
        assert records == expected.num_rows
        assert (summary.ranges > 2) is (number < 2)
        assert summary.stop_offsets == {
            place: _tiered_stop(tiergate, directory) for place, directory in enumerate(directories)
        }
        assert table(spark.read.parquet(path)).equals(expected)
        assert table(read_export(spark, path)).equals(expected)
    assert "date" in spark.read.parquet(path).columns
    plain = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")
    assert plain.count_rows() == records


def test_plane_that_is_away_while_an_export_is_planned_is_waited_for(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "export-planned-later"
    tier_segments(tiergate, two_partitions(tmp_path, topic)[0])
    away_once(monkeypatch, export_plan, "selected_partitions", "load_history")
    summary = export(spark, topic, str(tmp_path / "export"), options=options_for(planes.target))
    assert summary.records == in_the_tier(spark, planes.target, topic).num_rows


def _tiered_stop(tiergate: Tiergate, directory: Path) -> int:
    found = tiergate.metadata.list_segments(PartitionDirectory.open(directory).partition)
    return max((one.end_offset + 1 for one in found), default=0)


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_crash_between_writing_and_remembering_doubles_nothing(
    spark: SparkSession,
    planes: Planes,
    tiergate: Tiergate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commit_by: CommitBy,
) -> None:
    topic, path = f"export-crash-{commit_by}", str(tmp_path / "export")
    for directory in two_partitions(tmp_path, topic, segments=3):
        tier_segments(tiergate, directory)
    write, left = HadoopFiles.write, iter([True, False])

    def write_once(self: HadoopFiles, path: str, content: bytes) -> None:
        if path.endswith(MARKER) and not next(left):
            raise MemoryError("the driver is no more")
        write(self, path, content)

    options = options_for(planes.target, commit_by=commit_by)
    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, "write", write_once)
        with pytest.raises(MemoryError):
            export(spark, topic, path, options=options)
    expected = in_the_tier(spark, planes.target, topic)
    assert 0 < read_export(spark, path).count() < expected.num_rows
    export(spark, topic, path, options=options)
    assert table(spark.read.parquet(path)).equals(expected)


@pytest.mark.parametrize("commit_by", ["rename", "marker"])
def test_segments_that_are_tiered_after_later_ones_were_exported_are_exported_once(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path, commit_by: CommitBy
) -> None:
    topic, path = f"export-late-{commit_by}", str(tmp_path / "export")
    directory = write_sample(tmp_path, topic=topic, segments=6, segment_bytes=32 * 1024).directory
    starts = [one.base_offset for one in PartitionDirectory.open(directory).rolled_segments()]
    options = options_for(planes.target, commit_by=commit_by)
    tier_segments(tiergate, directory, first=starts[2])
    assert export(spark, topic, path, options=options).filled == ()
    tier_segments(tiergate, directory, limit=1)  # the second one is missing: only --skip-missing goes on
    with pytest.raises(OffsetOutOfRange, match=f"holds the offsets {starts[1]} to {starts[2] - 1}"):
        export(spark, topic, path, options=options)
    summary = export(spark, topic, path, options=replace(options, fail_on_data_loss=False))
    assert [(one.start_offset, one.stop_offset) for one in summary.filled] == [(0, starts[1])]
    assert export(spark, topic, path, options=options).ranges == 0
    tier_segments(tiergate, directory, first=starts[1], limit=1)
    summary = export(spark, topic, path, options=options)
    assert [(one.start_offset, one.stop_offset) for one in summary.filled] == [(starts[1], starts[2])]
    assert f"{starts[1]} to {starts[2] - 1} of partition 0" in summary.text()
    expected = in_the_tier(spark, planes.target, topic)
    assert table(spark.read.parquet(path)).equals(expected)
    assert table(read_export(spark, path)).equals(expected)


def test_segment_that_is_deleted_before_it_is_read_is_not_taken_for_exported(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, path = "export-deleted", str(tmp_path / "export")
    segments = tier_segments(tiergate, write_sample(tmp_path, topic=topic, segments=3).directory)
    options = options_for(planes.target, fail_on_data_loss=False)

    def divided_late(plans: list[PartitionPlan], *, wave_bytes: int) -> list[Wave]:
        delete_segment(tiergate, segments[1], clock=system_clock)
        return divided(plans, wave_bytes=wave_bytes)

    with monkeypatch.context() as patched:
        patched.setattr("tiergate_spark.pipelines.export.divided", divided_late)
        with pytest.raises(PySparkException) as failed:
            export(spark, topic, path, options=replace(options, wave_bytes=2**30))
    told = describe(failed.value)
    assert f"the offsets 0 to {segments[2].end_offset} of {topic}-0 were to be exported" in told.message
    assert told.exit_code == ExitCode.USAGE
    assert not list((tmp_path / "export").glob("partition=*"))
    export(spark, topic, path, options=options)
    expected = in_the_tier(spark, planes.target, topic, failOnDataLoss="false")
    assert expected.num_rows > 0
    assert table(spark.read.parquet(path)).equals(expected)


def test_files_of_hadoop_are_as_an_export_expects_them(spark: SparkSession, tmp_path: Path) -> None:
    files, root = HadoopFiles(spark), f"file://{tmp_path}/root"
    assert files.children(root) == []
    assert files.read(f"{root}/file") is None
    names = ["a file, with = and ü", "b", "c%20d"]
    for name in names:
        files.write(f"{root}/{name}", name.encode())
    files.make_directory(f"{root}/directory/empty")
    assert files.children(root) == [names[0], "b", "c%20d", "directory"]
    assert files.children(f"{root}/directory/empty") == []
    assert files.is_directory(f"{root}/directory")
    assert not files.is_directory(f"{root}/b")
    with pytest.raises(FileExistsError):
        files.rename(f"{root}/b", f"{root}/{names[0]}")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/nothing", f"{root}/other")
    files.rename(f"{root}/directory", f"{root}/other")
    assert files.read(f"{root}/b") == b"b"
    for name in ("b", "other", "nothing"):
        files.delete(f"{root}/{name}")
    assert files.children(root) == [names[0], "c%20d"]


def test_run_after_a_killed_driver_exports_every_record_once(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    topic, path = "export-killed", tmp_path / "export"
    for directory in two_partitions(tmp_path, topic, segments=30):
        tier_segments(tiergate, directory)
    words = ["export", topic, "--to", str(path), "--commit-bytes", "64k", "--partition-by", "partition,hour"]
    with gated_proxy(planes.segments.address, hold_after_bytes=HOLD_AFTER_BYTES) as proxy:
        proxy.shut()
        command = spark_command(planes.target, "--segments", proxy.address, *words)
        kill_when(command, lambda: proxy.held > 0, log=tmp_path / "log")
    expected = in_the_tier(spark, planes.target, topic)
    left = table(spark.read.parquet(str(path)))
    assert 0 < left.num_rows < expected.num_rows
    assert len(set(zip(left["partition"].to_pylist(), left["offset"].to_pylist(), strict=True))) == left.num_rows
    export(spark, topic, str(path), options=options_for(planes.target, partition_by=("hour",), wave_bytes=None))
    assert table(spark.read.parquet(str(path))).equals(expected)


def test_ctrl_c_ends_a_command_with_one_sentence(planes: Planes, tiergate: Tiergate, tmp_path: Path) -> None:
    topic, log = "export-interrupted", tmp_path / "log"
    tier_segments(tiergate, write_sample(tmp_path, topic=topic, segments=2, segment_bytes=256 * 1024).directory)
    with gated_proxy(planes.segments.address, hold_after_bytes=_SMALL) as proxy:
        proxy.shut()
        words = ["--segments", proxy.address, "export", topic, "--to", str(tmp_path / "export")]
        code = interrupt_when(spark_command(planes.target, *words), lambda: proxy.held > 0, log=log)
    said = log.read_text()
    assert code == ExitCode.INTERRUPTED, said
    assert said.splitlines()[-1] == (
        "tiergate-spark: interrupted; run it again: offload and export go on where they were"
    )
    assert "Traceback" not in said
    assert "ERROR" not in said


def test_committed_records_of_an_s3_store_between_two_limits_become_json(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    directory = write_sample(tmp_path, topic="export-s3", segments=4, segment_bytes=64 * 1024).directory
    with running_planes(tmp_path / "planes", **bucket.plane_settings()) as planes, connect(planes.target) as tiergate:
        tier_segments(tiergate, directory)
        path = str(tmp_path / "export")
        limits = {"from_offset": 7, "to_offset": 900}
        options = options_for(planes.target, format="json", isolation="read_committed", **limits)
        export(spark, "export-s3", path, options=options)
        for earlier in ({"to_offset": 500}, {"to_offset": None, "to_time_ms": 1}):  # before what is exported
            assert export(spark, "export-s3", path, options=replace(options, **earlier)).ranges == 0
        expected = in_the_tier(spark, planes.target, "export-s3", "read_committed")
        everything = in_the_tier(spark, planes.target, "export-s3")
    wanted = [offset for offset in expected["offset"].to_pylist() if 7 <= offset < 900]
    assert len(wanted) < len([offset for offset in everything["offset"].to_pylist() if 7 <= offset < 900])
    exported = spark.read.json(path).orderBy("offset").collect()
    assert [row["offset"] for row in exported] == wanted


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"partition_by": ("color",)}, "cannot be partitioned by 'color'"),
        ({"format": "delta"}, "delta is no format of plain files.*export Parquet.*readStream"),
        ({"from_offset": 5}, "has 2 partitions"),
        ({"partitions": (9, 7)}, "nothing of export-refused-partitions-7, export-refused-partitions-9 is tiered"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_written(
    spark: SparkSession,
    planes: Planes,
    tiergate: Tiergate,
    tmp_path: Path,
    chosen: dict[str, Any],
    message: str,
) -> None:
    for directory in two_partitions(tmp_path, f"export-refused-{next(iter(chosen))}", segments=1):
        tier_segments(tiergate, directory)
    with pytest.raises(PipelineFailed, match=message):
        export(
            spark,
            f"export-refused-{next(iter(chosen))}",
            str(tmp_path / "export"),
            options=options_for(planes.target, **chosen),
        )
    assert not (tmp_path / "export").exists()


def test_unknown_topic_is_told_by_name(spark: SparkSession, planes: Planes, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match="'export-nothing'"):
        export(spark, "export-nothing", str(tmp_path / "export"), options=options_for(planes.target))


def test_first_run_that_fails_leaves_the_directory_to_any_other(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    topic, path = "export-first-fails", str(tmp_path / "export")
    for directory in two_partitions(tmp_path, topic, segments=1):
        tier_segments(tiergate, directory)
    with pytest.raises(AnalysisException):  # of more columns than one
        export(spark, topic, path, options=options_for(planes.target, format="text"))
    assert not (tmp_path / "export" / "_tiergate" / "export.json").exists()
    options = options_for(planes.target, format="csv", include_headers=False)
    exported = export(spark, topic, path, options=options).records
    assert spark.read.csv(path).count() == exported == in_the_tier(spark, planes.target, topic).num_rows
    with pytest.raises(PipelineFailed, match="begun with format csv, not parquet"):
        export(spark, topic, path, options=options_for(planes.target))


def test_plane_that_is_the_wrong_one_or_away_is_told_with_its_option(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_patience, "PATIENCE_S", 0.1)
    path = tmp_path / "export"
    with running_planes(tmp_path / "planes") as planes, connect(planes.target) as tiergate:
        tier_segments(tiergate, write_sample(tmp_path, topic="away", segments=1).directory)
        segments = planes.segments.address
        with pytest.raises(PipelineFailed, match=f"{segments} is a segment plane; --target wants the metadata plane"):
            export(spark, "away", str(path), options=options_for(segments))
        planes.segments.kill()
        with pytest.raises(PipelineFailed, match=f"cannot reach the segment plane at {segments}; .*--segments") as told:
            export(spark, "away", str(path), options=options_for(planes.target))
    assert told.value.exit_code == ExitCode.OUT_OF_REACH
    assert not path.exists()
