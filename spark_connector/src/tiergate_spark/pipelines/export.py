"""Exports a topic of the tier to files of any of Spark's file formats, each offset once over all runs.

How the files lie is told in `export_layout.py`; what is read of the tier is what `format("tiergate")` gives.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tiergate_client.clock import system_clock
from tiergate_client.exit_codes import ExitCode
from tiergate_spark.offsets import offsets_json
from tiergate_spark.options import DEFAULT_SPLIT_BYTES, Isolation, Service
from tiergate_spark.pipelines.export_layout import (
    PARTITION,
    START_OFFSET,
    CommitBy,
    ExportDirectory,
    start_name,
)
from tiergate_spark.pipelines.export_plan import ExportedTopic, exported_topic, plan_export
from tiergate_spark.pipelines.export_ranges import Wave, divided
from tiergate_spark.pipelines.export_settings import ExportSettings
from tiergate_spark.pipelines.export_source import WaveSource
from tiergate_spark.pipelines.export_summary import ExportSummary
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.hadoop_files import HadoopFiles
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.pipelines.progress import Progress, followed_jobs, silent

_WAVE_BYTES: Final = 4 * 1024**3
_TASKS_PER_CORE: Final = 4
# Of UTC, whatever the session's time zone is: two runs must agree.
DERIVED_COLUMNS: Final[Mapping[str, str]] = {
    "date": "date_from_unix_date(cast(floor(unix_millis(timestamp) / 86400000) as int))",
    "hour": "cast(pmod(floor(unix_millis(timestamp) / 3600000), 24) as int)",
}
_ALWAYS: Final = (PARTITION, START_OFFSET)
_NO_FILE_FORMATS: Final = frozenset(("delta", "iceberg", "hudi", "jdbc", "kafka", "console", "memory", "tiergate"))


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What of a topic is exported, and how it is written."""

    service: Service
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    """Of DERIVED_COLUMNS; the partition of the topic always comes first and need not be named."""
    partitions: tuple[int, ...] = ()
    """None is all."""
    topic_id: str | None = None
    from_offset: int | None = None
    from_time_ms: int | None = None
    """Where the export of a partition begins, in all runs."""
    to_offset: int | None = None
    to_time_ms: int | None = None
    isolation: Isolation = "read_uncommitted"
    include_headers: bool = True
    fail_on_data_loss: bool = True
    write_options: Mapping[str, str] = field(default_factory=dict)
    wave_bytes: int | None = None
    """How much is written between commits; by default a few tasks for every core, at least 4 GiB."""
    commit_by: CommitBy | Literal["auto"] = "auto"

    @property
    def split_bytes(self) -> int:
        """What a task reads: about one file for each, and for each of its dates."""
        return min(DEFAULT_SPLIT_BYTES, self.wave_bytes or DEFAULT_SPLIT_BYTES)


def export(
    spark: SparkSession, topic: str, path: str, *, options: ExportOptions, progress: Progress = silent
) -> ExportSummary:
    """Writes what is in the tier and not yet in the export. It may be killed anywhere, and run again; one at a time."""
    began = time.monotonic()
    check_options(options)
    files = HadoopFiles(spark)
    path = files.qualified(path)
    by_rename = files.can_rename(path) if options.commit_by == "auto" else options.commit_by == "rename"
    directory = ExportDirectory(files, path, commit_by="rename" if by_rename else "marker", clock=system_clock)
    with exported_topic(topic, options) as exported:
        directory.claim(_settings(exported, options))
        covered = directory.committed()
        planned = ridden_out(lambda: plan_export(exported, options, covered), subject="the plan of the export")
    for partition, missing in planned.skipped.items():
        directory.skip(partition, missing)
    cores = spark.sparkContext.defaultParallelism
    wave_bytes = options.wave_bytes or max(_WAVE_BYTES, _TASKS_PER_CORE * cores * options.split_bytes)
    waves = divided(planned.plans, wave_bytes=wave_bytes)
    writer = _WaveWriter(spark, exported, directory, options)
    records = 0
    with followed_jobs(spark, progress, doing="exporting", total=sum(wave.split_count for wave in waves), unit="parts"):
        for wave in waves:
            records += writer.write(wave)
    ranges = [one for wave in waves for one in wave.ranges]
    stops = {partition: known.stop_offset for partition, known in covered.items()}
    filled = tuple(one for one in ranges if one.stop_offset <= stops.get(one.partition, 0))
    for one in ranges:
        stops[one.partition] = max(stops.get(one.partition, 0), one.stop_offset)
    return ExportSummary(
        path=path,
        records=records,
        ranges=len(ranges),
        read_bytes=sum(wave.size_bytes for wave in waves),
        stop_offsets=stops,
        filled=filled,
        seconds=time.monotonic() - began,
    )


class _WaveWriter:
    """Writes a wave by one job, and commits its ranges."""

    def __init__(
        self, spark: SparkSession, topic: ExportedTopic, directory: ExportDirectory, options: ExportOptions
    ) -> None:
        self._spark = spark.newSession()
        # A task reads one range of one partition: keeping a file open for each date beats sorting all its records.
        self._spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "64")
        self._spark.dataSource.register(WaveSource)
        self._topic = topic
        self._directory = directory
        self._options = options

    def write(self, wave: Wave) -> int:
        """The number of records."""
        counted = Observation()
        frame = self._read(wave).observe(counted, F.count(F.lit(1)).alias("records"))
        staging = self._directory.new_staging()
        writer = frame.write.format(self._options.format).mode("append").options(**self._options.write_options)
        writer.partitionBy(*_ALWAYS, *self._options.partition_by).save(staging)
        self._directory.commit(wave.ranges, staging=staging)
        return int(counted.get["records"])

    def _read(self, wave: Wave) -> DataFrame:
        starts = {(self._topic.name, one.partition): one.start_offset for one in wave.ranges}
        stops = {(self._topic.name, one.partition): one.stop_offset for one in wave.ranges}
        options = self._topic.source_options(self._options, partitions=[one.partition for one in wave.ranges])
        reader = self._spark.read.format(WaveSource.name()).options(**options)
        frame = reader.options(startingOffsets=offsets_json(starts), endingOffsets=offsets_json(stops)).load()
        names = [F.lit(part) for one in wave.ranges for part in (one.partition, start_name(one.start_offset))]
        frame = frame.withColumn(START_OFFSET, F.element_at(F.create_map(*names), F.col(PARTITION)))
        for name in self._options.partition_by:
            frame = frame.withColumn(name, F.expr(DERIVED_COLUMNS[name]))
        return frame


def read_export(spark: SparkSession, path: str, *, format: str = "parquet") -> DataFrame:  # noqa: A002 - Spark's word
    """What is committed of an export, also while a run by markers is under way, as in object stores."""
    files = HadoopFiles(spark)
    path = files.qualified(path)
    directory = ExportDirectory(files, path, commit_by="marker", clock=system_clock)
    found = directory.committed_directories()
    if not found:
        raise PipelineFailed(f"nothing is exported to {path} yet", exit_code=ExitCode.NOT_FOUND)
    return spark.read.format(format).option("basePath", path).load(found)


def _settings(topic: ExportedTopic, options: ExportOptions) -> ExportSettings:
    return ExportSettings(
        topic=topic.name,
        topic_id=str(topic.topic_id),
        format=options.format,
        partition_by=options.partition_by,
        isolation=options.isolation,
        include_headers=options.include_headers,
        from_offset=options.from_offset,
        from_time_ms=options.from_time_ms,
    )


def check_options(options: ExportOptions) -> None:
    """Raises PipelineFailed for what can be known to be wrong before anything runs."""
    for name in options.partition_by:
        if name not in DERIVED_COLUMNS:
            raise PipelineFailed(
                f"records cannot be partitioned by {name!r}; there are {' and '.join(DERIVED_COLUMNS)}",
                exit_code=ExitCode.USAGE,
            )
    if options.format.lower() in _NO_FILE_FORMATS:
        raise PipelineFailed(
            f"{options.format} is no format of plain files, and an export keeps each record once by its files; export "
            "Parquet and write it on from there, or read the topic with readStream, which has checkpoints for that",
            exit_code=ExitCode.USAGE,
        )
    if options.include_headers and options.format.lower() == "csv":
        raise PipelineFailed(
            "csv cannot hold the column of headers; leave it out with --no-headers, or choose another --format",
            exit_code=ExitCode.USAGE,
        )
