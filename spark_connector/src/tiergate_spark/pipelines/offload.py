"""Offloads Kafka partition directories to the tier: plans on the driver, copies on the executors, a segment a task.

The directories must lie on a file system that the driver and all executors see under the same path. They are only read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import TopicId
from tiergate_client.local_log import PartitionDirectory
from tiergate_client.local_log.topic_names import find_other_name
from tiergate_client.segment_lifecycle import Tier
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.options import Service
from tiergate_spark.pipelines.connection import connected
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.pipelines.progress import Progress, followed_jobs, silent
from tiergate_spark.pipelines.segment_offload import Result, SegmentOutcome, SegmentTask, offload_segment


@dataclass(frozen=True, slots=True)
class OffloadOptions:
    """Where to, and what goes before what the directories say of themselves."""

    service: Service
    topic_id: TopicId | None = None
    topic: str | None = None
    partition: int | None = None
    broker_id: int = -1


@dataclass(frozen=True, slots=True)
class OffloadSummary:
    """What became of every rolled segment, by directory and offset."""

    segments: tuple[SegmentOutcome, ...]
    seconds: float

    def with_result(self, *results: Result) -> list[SegmentOutcome]:
        return [one for one in self.segments if one.result in results]

    @property
    def warnings(self) -> list[str]:
        return [one.warning for one in self.segments if one.warning]

    def document(self) -> dict[str, Any]:
        copied = self.with_result("copied", "continued")
        return {
            "segments": [asdict(one) for one in self.segments],
            "copied": len(copied),
            "skipped": len(self.with_result("skipped")),
            "failed": len(self.with_result("failed")),
            "copied_bytes": sum(one.size_bytes for one in copied),
            "seconds": round(self.seconds, 3),
        }

    def text(self) -> str:
        copied = self.with_result("copied", "continued")
        size_bytes = sum(one.size_bytes for one in copied)
        noun = "segment" if len(copied) == 1 else "segments"
        parts = [f"{len(copied)} {noun} copied ({size_text(size_bytes)} in {self.seconds:.1f} s)"]
        for count, what in (
            (len(self.with_result("continued")), "of them continued from an earlier run"),
            (len(self.with_result("skipped")), "skipped, since they are there"),
            (len(self.with_result("failed")), "failed"),
        ):
            if count:
                parts.append(f"{count} {what}")
        return ", ".join(parts)


def offload(
    spark: SparkSession, directories: Sequence[Path], *, options: OffloadOptions, progress: Progress = silent
) -> OffloadSummary:
    """Copies every rolled segment that the tier does not have with the same offsets, epochs and log.

    Segments go side by side, those of one partition too. It may be killed anywhere, and run again: what is finished is
    skipped, what was begun goes on. Tasks that Spark repeats, or runs twice, make one copy together.
    """
    began = time.monotonic()
    opened = open_directories(directories, options)
    with connected(options.service) as tier:
        tasks = ridden_out(lambda: _planned(tier, opened, options), subject="the plan of the offload")
    outcomes: list[SegmentOutcome] = []
    if tasks:
        with followed_jobs(spark, progress, doing="copying", total=len(tasks), unit="segments"):
            outcomes = spark.sparkContext.parallelize(tasks, len(tasks)).map(offload_segment).collect()
    return OffloadSummary(tuple(outcomes), time.monotonic() - began)


def open_directories(directories: Sequence[Path], options: OffloadOptions) -> list[PartitionDirectory]:
    """Each once, by whatever names it is given. Raises UnreadablePartitionDirectory."""
    return [
        PartitionDirectory.open(path, topic_id=options.topic_id, topic=options.topic, partition=options.partition)
        for path in dict.fromkeys(path.resolve() for path in directories)
    ]


def _planned(tier: Tier, directories: Sequence[PartitionDirectory], options: OffloadOptions) -> list[SegmentTask]:
    _refuse_other_names(tier, directories)
    return [task for directory in directories for task in _tasks(tier, directory, options)]


def _refuse_other_names(tier: Tier, directories: Iterable[PartitionDirectory]) -> None:
    other = find_other_name(tier.metadata, directories)
    if other is not None:
        raise PipelineFailed(f"{other}; give it with --topic {other.known_as}", exit_code=ExitCode.REFUSED)


def _tasks(tier: Tier, directory: PartitionDirectory, options: OffloadOptions) -> Iterator[SegmentTask]:
    known: dict[tuple[int, int], list[RemoteLogSegmentMetadata]] = defaultdict(list)
    for one in tier.metadata.list_segments(directory.partition):
        known[one.start_offset, one.end_offset].append(one)
    for base_offset, end_offset in directory.rolled_bounds:
        cut = replace(directory, base_offsets=(base_offset, end_offset + 1))
        yield SegmentTask(options.service, cut, tuple(known[base_offset, end_offset]), options.broker_id)
