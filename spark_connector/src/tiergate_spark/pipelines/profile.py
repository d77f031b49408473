"""The pipeline `profile`: what is in topics, hour by hour, as DataFrames. How it looks is in `profile_page.py`.

One pass over the records, on executors. Distinct keys are counted approximately, with a deviation of 2 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tiergate_client.record_conversions import split_from_bytes
from tiergate_client.records.batch_format import Codec
from tiergate_spark.bounds import Bounds
from tiergate_spark.data_loss import tell_gone
from tiergate_spark.options import Service, parse_options
from tiergate_spark.pipelines.connection import connected
from tiergate_spark.pipelines.kept_frame import kept_frame
from tiergate_spark.pipelines.profile_rows import ROWS_SCHEMA, profile_rows
from tiergate_spark.pipelines.progress import Progress, followed_jobs, silent
from tiergate_spark.planning import plan_batch
from tiergate_spark.worker_client import worker_client

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TASKS_SCHEMA: Final = "split BINARY, min_timestamp_ms BIGINT, fail_on_data_loss BOOLEAN"
_PERCENTILES: Final = (0.5, 0.95, 0.99)
_PERCENTILE_ACCURACY: Final = 1000
_DISTINCT_DEVIATION: Final = 0.02
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Profile:
    """Both frames come from one that Spark keeps until `close`, so that nothing is read again for them."""

    hours: DataFrame
    """A row for each topic and hour (UTC; null for times outside of the calendar) in which there are records."""
    topics: DataFrame
    """A row for each topic with the same measures."""
    _measured: DataFrame

    def close(self) -> None:
        self._measured.unpersist()


def profile(
    spark: SparkSession,
    topics: Sequence[str],
    *,
    service: Service,
    options: Mapping[str, str] = _NO_OPTIONS,
    progress: Progress = silent,
) -> Profile:
    """All records of the topics, or those that the data source's options choose, such as `startingTimestamp`.

    Records count whether their transactions were committed or not, unless the options say otherwise. Raises
    TopicNotFound for a name that the tier does not know, InvalidField for wrong options.
    """
    given = {**options, "subscribe": ",".join(topics), "target": service.target, "access": service.access}
    if service.segments is not None:
        given["segments"] = service.segments
    with connected(service):  # says clearly when nobody answers
        splits = plan_batch(parse_options(given), (), bounds=Bounds())
    tasks = [(split.split, split.min_timestamp_ms, split.fail_on_data_loss) for split in splits]
    reached = splits[0].service if splits else service
    with (
        kept_frame(_measured(_rows(spark, tasks, reached))) as measured,
        followed_jobs(spark, progress, doing="profiling", total=len(tasks), unit="splits"),
    ):
        measured.count()
    return Profile(_hours(measured), _topics(measured), measured)


def _rows(spark: SparkSession, tasks: list[tuple[bytes, int | None, bool]], service: Service) -> DataFrame:
    def read(batches: Iterable[Any]) -> Iterator[Any]:
        client = worker_client(service)
        for batch in batches:
            for task in batch.to_pylist():
                yield from profile_rows(
                    split_from_bytes(task["split"]),
                    client.storage,
                    min_timestamp_ms=task["min_timestamp_ms"],
                    on_gone=None if task["fail_on_data_loss"] else tell_gone,
                )

    rows = spark.sparkContext.parallelize(tasks, max(1, len(tasks)))
    return spark.createDataFrame(rows, _TASKS_SCHEMA, verifySchema=False).mapInArrow(read, ROWS_SCHEMA)


def _measured(rows: DataFrame) -> DataFrame:
    """A row for each hour of a topic, and one for all of its hours, since distinct keys can not be added up."""
    key_bytes = F.coalesce(F.octet_length("key"), F.lit(0))
    value_bytes = F.coalesce(F.col("value_bytes"), F.lit(0))
    stored_bytes, plain_bytes = F.sum("stored_bytes"), F.sum("plain_bytes")
    sizes = F.percentile_approx(key_bytes + value_bytes, list(_PERCENTILES), _PERCENTILE_ACCURACY)
    return rows.groupingSets([["topic", "hour_ms"], ["topic"]], "topic", "hour_ms").agg(
        F.grouping("hour_ms").alias("is_total"),
        F.count(F.lit(1)).alias("records"),
        _whole(F.sum("batches")).alias("batches"),
        _whole(stored_bytes).alias("stored_bytes"),
        _whole(plain_bytes).alias("plain_bytes"),
        F.round(plain_bytes / stored_bytes, 3).alias("compression_ratio"),
        _bytes_by_codec().alias("codec_bytes"),
        F.approx_count_distinct("key", _DISTINCT_DEVIATION).alias("distinct_keys"),
        F.count_if(F.col("key").isNull()).alias("null_keys"),
        F.count_if(F.col("value_bytes").isNull()).alias("tombstones"),
        F.sum(key_bytes).alias("key_bytes"),
        F.sum(value_bytes).alias("value_bytes"),
        *(sizes[place].alias(f"record_bytes_p{share * 100:.0f}") for place, share in enumerate(_PERCENTILES)),
    )


def _whole(number: Column) -> Column:
    """Shares of batches are fractions, and their sums nearly whole."""
    return F.round(number).cast("BIGINT")


def _bytes_by_codec() -> Column:
    """A map with those that occur."""
    names = [codec.name.lower() for codec in Codec]
    sums = [F.sum(F.when(F.col("codec") == name, F.col("stored_bytes"))) for name in names]
    entries = [
        F.when(found.isNotNull(), F.struct(F.lit(name), _whole(found))) for name, found in zip(names, sums, strict=True)
    ]
    return F.map_from_entries(F.array_compact(F.array(*entries)))


def _hours(measured: DataFrame) -> DataFrame:
    hour = F.timestamp_millis("hour_ms").alias("hour")
    others = [name for name in measured.columns if name not in {"topic", "hour_ms", "is_total"}]
    return measured.where("is_total = 0").select("topic", hour, *others).orderBy("topic", "hour")


def _topics(measured: DataFrame) -> DataFrame:
    return measured.where("is_total = 1").drop("hour_ms", "is_total").orderBy("topic")
