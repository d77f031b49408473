"""Reads of the tier on S3 by a real Spark: ways of access, columns, filters, and what wrong options look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from support.planes import Planes, running_planes
from support.s3_server import S3Server, s3_environment
from support.tiering import tier_segments
from tiergate_client import connect
from tiergate_client.records import ALL_COLUMNS, decode_batches
from tiergate_server.kafka_files.sample import write_sample

pytestmark = pytest.mark.timeout(300)

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def decoded() -> list[dict[str, Any]]:
    """Filled by the planes: every record that is in the tier."""
    return []


@pytest.fixture(scope="module")
def planes(s3: S3Server, tmp_path_factory: pytest.TempPathFactory, decoded: list[dict[str, Any]]) -> Iterator[Planes]:
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        settings = s3.new_bucket().plane_settings()
        with (
            running_planes(tmp_path_factory.mktemp("planes"), **settings) as running,
            connect(running.target) as client,
        ):
            sample = write_sample(tmp_path_factory.mktemp("kafka"))
            for segment in tier_segments(client, sample.directory):
                with client.storage.fetch_segment(segment) as stream:
                    for batch in decode_batches(stream.read(), columns=ALL_COLUMNS):
                        decoded += batch.to_pylist()
            yield running


class Reader:
    def __init__(self, spark: SparkSession, target: str) -> None:
        self._spark = spark
        self._target = target

    def read(self, schema: str | None = None, **options: str) -> DataFrame:
        asked = self._spark.read.format("tiergate").options(**{"target": self._target, "subscribe": "orders"} | options)
        return (asked if schema is None else asked.schema(schema)).load()


@pytest.fixture(scope="module")
def reader(spark: SparkSession, planes: Planes) -> Reader:
    return Reader(spark, planes.target)


def offsets_of(frame: DataFrame) -> list[int]:
    return sorted(frame.select("offset").toArrow()["offset"].to_pylist())


@pytest.mark.parametrize("access", ["auto", "direct", "service"])
def test_rows_are_the_same_whichever_way_they_come(reader: Reader, decoded: list[dict[str, Any]], access: str) -> None:
    table = reader.read(access=access, splitBytes="500k").toArrow().sort_by("offset")
    assert table["offset"].to_pylist() == [row["offset"] for row in decoded]
    assert table["key"].to_pylist() == [row["key"] for row in decoded]
    assert table["value"].to_pylist() == [row["value"] for row in decoded]
    assert table["timestampType"].to_pylist() == [row["timestamp_type"] for row in decoded]
    assert set(table["topic"].to_pylist()) == {"orders"}
    assert set(table["partition"].to_pylist()) == {0}


def test_narrower_schema_is_read_in_its_order(reader: Reader, decoded: list[dict[str, Any]]) -> None:
    frame = reader.read("value BINARY, offset LONG NOT NULL")
    assert frame.columns == ["value", "offset"]
    rows = frame.where("offset < 5").collect()
    assert [tuple(row) for row in rows] == [(row["value"], row["offset"]) for row in decoded[:5]]


def test_schema_that_names_headers_reads_them(reader: Reader, decoded: list[dict[str, Any]]) -> None:
    frame = reader.read("headers ARRAY<STRUCT<key: STRING, value: BINARY>>, offset LONG")
    table = frame.toArrow().sort_by("offset")
    assert any(row["headers"] for row in decoded)
    assert table["headers"].to_pylist() == [row["headers"] or None for row in decoded]


def test_least_time_is_kept_exactly(reader: Reader, decoded: list[dict[str, Any]]) -> None:
    least = decoded[len(decoded) // 2]["timestamp"]
    expected = [row["offset"] for row in decoded if row["timestamp"] >= least]
    assert offsets_of(reader.read("offset LONG", minTimestamp=str(least))) == expected


def test_read_of_nothing_has_the_schema_and_no_rows(reader: Reader) -> None:
    frame = reader.read(startingOffsets='{"orders":{"0":5}}', endingOffsets='{"orders":{"0":5}}')
    assert frame.collect() == []
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_filters_are_applied_whether_or_not_they_are_pushed(spark: SparkSession, reader: Reader) -> None:
    def filtered() -> DataFrame:
        asked = reader.read("offset LONG, partition INT", splitBytes="300k")
        return asked.where("offset >= 7000 AND offset < 7100 AND partition IN (0, 1)")

    assert filtered().rdd.getNumPartitions() > 10
    assert offsets_of(filtered()) == list(range(7000, 7100))
    spark.conf.set(PUSH_DOWN, "true")
    try:
        assert filtered().rdd.getNumPartitions() <= 2
        assert offsets_of(filtered()) == list(range(7000, 7100))
        assert reader.read(splitBytes="300k").rdd.getNumPartitions() > 10
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_filter_on_time_reads_fewer_splits(spark: SparkSession, reader: Reader, decoded: list[dict[str, Any]]) -> None:
    least = decoded[-100]["timestamp"]
    spark.conf.set(PUSH_DOWN, "true")
    try:
        frame = reader.read(splitBytes="100k").where(f"timestamp >= timestamp_millis({least})")
        assert frame.rdd.getNumPartitions() < 5
        assert offsets_of(frame) == [row["offset"] for row in decoded if row["timestamp"] >= least]
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_wrong_option_fails_when_the_frame_is_made(reader: Reader) -> None:
    with pytest.raises(
        AnalysisException, match="startingoffset: there is no such option; did you mean 'startingOffsets'"
    ):
        reader.read(startingOffset="earliest")
    with pytest.raises(AnalysisException, match="failOnDataLoss: 'maybe' is neither true nor false"):
        reader.read(failOnDataLoss="maybe")


def test_user_who_changed_one_word_is_told_the_other(spark: SparkSession) -> None:
    kafkas = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}
    with pytest.raises(AnalysisException, match=r"target: give the address .* instead of kafka\.bootstrap\.servers"):
        spark.read.format("tiergate").options(**kafkas).load()


def test_wrong_schema_and_wrong_topic_fail_before_any_task(reader: Reader) -> None:
    with pytest.raises(PySparkException, match="schema: value is binary, not string; cast it afterwards"):
        reader.read("value STRING").count()
    with pytest.raises(PySparkException, match="the tier knows no topic 'order'") as caught:
        reader.read(subscribe="order").count()
    assert "_InactiveRpcError" not in str(caught.value)
    with pytest.raises(PySparkException, match="startingOffsets: a batch read can not start at latest"):
        reader.read(startingOffsets="latest").count()


def test_write_is_refused_with_what_writes(reader: Reader, planes: Planes) -> None:
    writer = reader.read().write.format("tiergate").options(target=planes.target, subscribe="orders").mode("append")
    with pytest.raises(PySparkException, match="only reads; `tiergate-spark offload` copies segments"):
        writer.save()
