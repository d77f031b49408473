"""The pipeline `verify`: checks all that is stored of topics, in parallel on executors, and reports it as DataFrames.

What is checked is in `checks/`. Nothing is changed: it can be run at any time, also beside readers and writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tiergate_client import Tiergate
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_spark.options import Service
from tiergate_spark.partitions import partitions_of
from tiergate_spark.pipelines.checks.finding import Severity
from tiergate_spark.pipelines.checks.partition_check import PartitionReport, check_partition
from tiergate_spark.pipelines.connection import connected
from tiergate_spark.pipelines.kept_frame import kept_frame
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.pipelines.progress import Progress, followed_jobs, silent
from tiergate_spark.pipelines.verify_rows import (
    FINDINGS_SCHEMA,
    SEGMENTS_SCHEMA,
    finding_row,
    partition_names,
    segment_row,
)
from tiergate_spark.planning import located

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_AT_THE_SAME_TIME: Final = 8
_TASK_BYTES: Final = 64 * 1024 * 1024
_TASKS_PER_CORE: Final = 4

_COUNTS: Final = ("batches", "records", "control_records", "checked_bytes")
_NAMES: Final = ("topic", "topic_id", "partition", "segment_id")


@dataclass(frozen=True, slots=True)
class VerificationSummary:
    """What was checked, and how often something was found."""

    partitions: int
    segments: int
    gone_segments: int
    """Deleted since they were listed, and not checked."""
    damaged_segments: int
    batches: int
    records: int
    control_records: int
    """Of transactions, beside the records: readers never see them."""
    checked_bytes: int
    damages: int
    warnings: int
    notes: int

    @property
    def is_sound(self) -> bool:
        return not self.damages


@dataclass(frozen=True, slots=True)
class Verification:
    """The report. Both frames are kept by Spark until `close`, so that nothing is read again for them."""

    findings: DataFrame
    """A row for each finding; segment, file, position and offset are null where it is about none."""
    segments: DataFrame
    """A row for each segment that was checked: its counts, and how many findings it has by severity."""
    summary: VerificationSummary
    _checked: DataFrame

    def close(self) -> None:
        self._checked.unpersist()


def verify(
    spark: SparkSession, *, service: Service, topics: Sequence[str] = (), progress: Progress = silent
) -> Verification:
    """Every finished segment of the topics, or of all of them; of a name with two ids, the segments of both.

    Raises TopicNotFound for a name that the tier does not know. Damage is reported, never raised.
    """
    with connected(service) as tiergate:
        partitions = ridden_out(lambda: _partitions(tiergate, topics), subject="the list of partitions")
        with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
            reports = list(pool.map(lambda one: _checked_partition(tiergate, one), partitions))
        reached = ridden_out(lambda: located(tiergate, service), subject="the address of the segment plane")
    segments = [segment for report in reports for segment in report.finished]
    tasks = _tasks(segments, most=spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    with (
        kept_frame(_checked(spark, tasks, reached)) as checked,
        followed_jobs(spark, progress, doing="verifying", total=len(tasks), unit="tasks"),
    ):
        findings = _findings(spark, checked, reports)
        summary = _summary(checked, findings, partitions=len(partitions))
    return Verification(findings, _segments(checked), summary, checked)


def _partitions(tiergate: Tiergate, topics: Sequence[str]) -> list[TopicIdPartition]:
    if not topics:
        return [one.partition for one in tiergate.metadata.list_partitions()]
    return [one.partition for name in dict.fromkeys(topics) for one in partitions_of(tiergate.metadata, name)]


def _checked_partition(tiergate: Tiergate, partition: TopicIdPartition) -> PartitionReport:
    return ridden_out(
        lambda: check_partition(tiergate.metadata, tiergate.storage, partition),
        subject=f"{partition.topic}-{partition.partition}",
    )


def _tasks(segments: Sequence[RemoteLogSegmentMetadata], *, most: int) -> list[list[bytes]]:
    """Segments in their wire form, dealt to tasks of some megabytes each: more tasks than `most` only for more data."""
    total_bytes = sum(segment.segment_size_bytes for segment in segments)
    count = min(len(segments), max(most, total_bytes // _TASK_BYTES))
    largest_first = sorted(segments, key=lambda segment: segment.segment_size_bytes, reverse=True)
    encoded = [metadata_to_proto(segment).SerializeToString() for segment in largest_first]
    return [encoded[number::count] for number in range(count)]


def _checked(spark: SparkSession, tasks: list[list[bytes]], service: Service) -> DataFrame:
    def check(groups: Iterable[list[bytes]]) -> Iterator[tuple[Any, ...]]:
        return (segment_row(encoded, service) for group in groups for encoded in group)

    rows = spark.sparkContext.parallelize(tasks, max(1, len(tasks))).mapPartitions(check)
    return spark.createDataFrame(rows, SEGMENTS_SCHEMA, verifySchema=False)


def _findings(spark: SparkSession, checked: DataFrame, reports: Iterable[PartitionReport]) -> DataFrame:
    of_segments = checked.select(*_NAMES, F.explode("findings").alias("finding")).select(*_NAMES, "finding.*")
    of_partitions = [
        (*partition_names(report.partition), segment_id, *finding_row(finding))
        for report in reports
        for segment_id, finding in report.findings
    ]
    return of_segments.union(spark.createDataFrame(of_partitions, FINDINGS_SCHEMA))


def _segments(checked: DataFrame) -> DataFrame:
    counts = [_count_of(severity).alias(f"{severity.value}s") for severity in Severity]
    return checked.select("*", *counts).drop("findings")


def _count_of(severity: Severity) -> Column:
    return F.size(F.filter("findings", lambda one: one.severity == severity.value))


def _summary(checked: DataFrame, findings: DataFrame, *, partitions: int) -> VerificationSummary:
    is_damaged = F.exists("findings", lambda one: one.severity == Severity.DAMAGE.value)
    totals = checked.agg(
        F.count_if(~F.col("is_gone")).alias("segments"),
        F.count_if("is_gone").alias("gone"),
        F.count_if(is_damaged).alias("damaged"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTS),
    ).collect()[0]
    counts: dict[str, int] = dict(findings.groupBy("severity").count().collect())
    return VerificationSummary(
        partitions=partitions,
        segments=totals.segments,
        gone_segments=totals.gone,
        damaged_segments=totals.damaged,
        batches=totals.batches,
        records=totals.records,
        control_records=totals.control_records,
        checked_bytes=totals.checked_bytes,
        damages=counts.get(Severity.DAMAGE.value, 0),
        warnings=counts.get(Severity.WARNING.value, 0),
        notes=counts.get(Severity.NOTE.value, 0),
    )
