"""`offload` on a real Spark and real planes: lost tasks, doubled tasks and a killed driver leave each segment once."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from support.gated_proxy import gated_proxy
from support.planes import Planes
from support.spark import running_spark
from support.spark_commands import kill_when, run_command, spark_command, submitted_command
from tiergate_client import Tiergate, connect
from tiergate_client.local_log import PartitionDirectory
from tiergate_client.values import SegmentState
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.options import Service
from tiergate_spark.pipelines import offload as pipeline
from tiergate_spark.pipelines.offload import OffloadOptions, offload
from tiergate_spark.pipelines.segment_offload import SegmentOutcome, SegmentTask, offload_segment

pytestmark = pytest.mark.timeout(300)

HOLD_AFTER_BYTES = 1024
"""Of what a worker is answered, a hundred for each copy: about ten of sixty."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """With as many attempts of a task as on a cluster, which threads alone would not have."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    with running_spark(master="local[2,4]") as session:
        yield session


@pytest.fixture
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as client:
        yield client


def sample_directory(parent: Path, topic: str, *, segments: int = 4, segment_bytes: int = 32 * 1024) -> Path:
    return write_sample(parent, topic=topic, segments=segments, segment_bytes=segment_bytes).directory


def options_for(planes: Planes) -> OffloadOptions:
    return OffloadOptions(Service(planes.target, None, "auto"), broker_id=3)


def copies(tiergate: Tiergate, directory: Path) -> Counter[tuple[int, int]]:
    """How many finished copies there are of each pair of offsets; there must be none of another state."""
    found = list(tiergate.metadata.list_segments(PartitionDirectory.open(directory).partition))
    assert {one.state for one in found} <= {SegmentState.COPY_FINISHED}
    return Counter((one.start_offset, one.end_offset) for one in found)


def assert_offloaded_once(tiergate: Tiergate, directory: Path) -> None:
    opened = PartitionDirectory.open(directory)
    assert copies(tiergate, directory) == Counter(opened.rolled_bounds)
    stored = {one.start_offset: one for one in tiergate.metadata.list_segments(opened.partition)}
    for segment in opened.rolled_segments():
        remote = stored[segment.base_offset]
        assert tiergate.storage.get_manifest(remote).files == segment.data.manifest(remote).files


def test_every_rolled_segment_is_copied_and_the_next_time_skipped(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    directories = [sample_directory(tmp_path, topic) for topic in ("offload-a", "offload-b")]
    told: list[str] = []
    first = offload(spark, directories, options=options_for(planes), progress=told.append)
    assert [one.result for one in first.segments] == ["copied"] * 8
    for directory in directories:
        assert_offloaded_once(tiergate, directory)
    again = offload(spark, directories, options=options_for(planes))
    assert [(one.result, one.segment_id) for one in again.segments] == [
        ("skipped", one.segment_id) for one in first.segments
    ]


Dying = Callable[[SegmentTask], SegmentOutcome]


def dies_once(directory: Path, when: str) -> Dying:
    """A task whose first attempt for each segment takes its worker process with it."""

    def attempt(task: SegmentTask) -> SegmentOutcome:
        from tiergate_spark.worker_client import worker_client  # noqa: PLC0415 - this runs in a worker

        seen = directory / str(task.directory.base_offsets[0])
        is_first = not seen.exists()
        seen.touch()
        if is_first:
            tier = worker_client(task.service)
            if when == "announced":
                setattr(tier.storage, "copy_segment", lambda *_: os._exit(1))  # noqa: B010 - a method, for mypy
            elif when == "copied":
                setattr(tier.metadata, "update_segment", lambda _: os._exit(1))  # noqa: B010
        outcome = offload_segment(task)
        if is_first:
            os._exit(1)
        return outcome

    return attempt


@pytest.mark.parametrize("when", ["announced", "copied", "finished"])
def test_task_that_is_lost_is_repeated_without_a_second_copy(
    spark: SparkSession,
    planes: Planes,
    tiergate: Tiergate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    directory = sample_directory(tmp_path, f"offload-{when}", segments=2)
    seen = tmp_path / "seen"
    seen.mkdir()
    monkeypatch.setattr(pipeline, "offload_segment", dies_once(seen, when))
    summary = offload(spark, [directory], options=options_for(planes))
    assert len(list(seen.iterdir())) == len(summary.segments) == 2
    assert_offloaded_once(tiergate, directory)


def test_two_tasks_for_the_same_segment_make_one_copy(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    """As with speculative execution: two replicas of one partition, whose tasks run side by side."""
    directory = sample_directory(tmp_path / "broker-1", "offload-twice", segment_bytes=512 * 1024)
    replica = copytree(directory, tmp_path / "broker-2" / directory.name)
    pairs = offload(spark, [directory, replica], options=options_for(planes)).segments
    assert Counter(one.segment_id for one in pairs) == Counter({one.segment_id: 2 for one in pairs})
    assert_offloaded_once(tiergate, directory)


def test_run_after_a_killed_driver_goes_on_without_a_second_copy(
    spark: SparkSession, planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    directory = sample_directory(tmp_path, "offload-killed", segments=60, segment_bytes=256 * 1024)
    partition = PartitionDirectory.open(directory).partition

    def finished() -> int:
        return sum(one.state is SegmentState.COPY_FINISHED for one in tiergate.metadata.list_segments(partition))

    with gated_proxy(planes.segments.address, hold_after_bytes=HOLD_AFTER_BYTES) as proxy:
        proxy.shut()
        command = spark_command(planes.target, "--segments", proxy.address, "offload", str(directory))
        kill_when(command, lambda: proxy.held == 2, log=tmp_path / "log")
    before = finished()
    assert 0 < before < 60
    summary = offload(spark, [directory], options=options_for(planes))
    assert len(summary.with_result("skipped")) >= before
    assert len(summary.with_result("copied", "continued")) > 0
    assert_offloaded_once(tiergate, directory)


def test_command_through_spark_submit_says_what_it_did_and_what_it_could_not(
    planes: Planes, tiergate: Tiergate, tmp_path: Path
) -> None:
    good, bad = (sample_directory(tmp_path, topic, segments=2) for topic in ("offload-good", "offload-bad"))
    (bad / f"{0:020}.timeindex").unlink()
    done = run_command(submitted_command(planes.target, "offload", str(good), str(bad), "-o", "json"))
    assert done.returncode == 1, done.stderr
    summary, end = json.JSONDecoder().raw_decode(done.stdout)
    assert (summary["copied"], summary["skipped"], summary["failed"]) == (3, 0, 1)
    error = json.loads(done.stdout[end:])["error"]  # spark-submit puts what comes on stderr behind it
    assert error["message"].startswith("1 of 4 segments were not copied: ")
    assert "timeindex is missing" in error["message"]
    assert_offloaded_once(tiergate, good)
