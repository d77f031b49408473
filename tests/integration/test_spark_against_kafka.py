"""The same query by `format("kafka")` and by `format("tiergate")` over the same offsets gives equal DataFrames."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.made_rows import BASE_TIME_MS
from support.record_corpus import RecordCorpus, TieredPartition
from tiergate_spark.offsets import offsets_json
from tiergate_spark.options import Service
from tiergate_spark.pipelines.profile import profile
from tiergate_spark.pipelines.verify import verify

pytestmark = pytest.mark.timeout(300)

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


class BothSources:
    """Reads of the broker and of the tier that differ in one word and an address."""

    def __init__(self, spark: SparkSession, corpus: RecordCorpus) -> None:
        self._spark = spark
        self._corpus = corpus
        self._log_starts = _json(corpus, lambda one: one.log_start_offset)

    def read(self, **options: str) -> tuple[DataFrame, DataFrame]:
        common = {**options, "kafka.isolation.level": options.get("kafka.isolation.level", ISOLATION_LEVELS[0])}
        kafka = self._spark.read.format("kafka").options(**common)
        tiergate = self._spark.read.format("tiergate").options(**common, logStartOffset=self._log_starts)
        return (
            kafka.option("kafka.bootstrap.servers", self._corpus.bootstrap).load(),
            tiergate.option("target", self._corpus.target).load(),
        )


@pytest.fixture(scope="module")
def both(spark: SparkSession, corpus: RecordCorpus) -> BothSources:
    return BothSources(spark, corpus)


def _json(corpus: RecordCorpus, number: Any, *, topic: str | None = None, quiet: int | None = None) -> str:
    """`quiet` is the number for the partition of which nothing is tiered; Kafka's source wants that to be named too."""
    wanted = [one for one in corpus.partitions if topic in (None, one.topic)]
    numbers = {(one.topic, one.partition.partition): number(one) for one in wanted}
    return offsets_json(numbers if quiet is None else {**numbers, ("partitions", 3): quiet})


def rows_of(frame: DataFrame) -> Any:
    """As an Arrow table, in which every time has its place, in the order of the logs."""
    return frame.toArrow().sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_every_row_of_every_kind_of_topic_is_equal(both: BothSources, corpus: RecordCorpus, isolation: str) -> None:
    def stop(one: TieredPartition) -> int:
        return max(one.log_start_offset, one.stop_for(isolation))

    kafka, tiergate = both.read(
        subscribePattern="|".join({one.topic for one in corpus.partitions}),
        startingOffsets=_json(corpus, lambda one: one.log_start_offset, quiet=0),
        endingOffsets=_json(corpus, stop, quiet=0),
        includeHeaders="true",
        **{"kafka.isolation.level": isolation},
    )
    assert tiergate.schema == kafka.schema
    expected = rows_of(kafka)
    assert expected.num_rows == sum(len(corpus.consumed(one, isolation)) for one in corpus.partitions)
    assert rows_of(tiergate).equals(expected)


def test_assigned_partitions_are_equal_without_headers(both: BothSources, corpus: RecordCorpus) -> None:
    first = next(one for one in corpus.partitions if one.topic == "partitions")
    kafka, tiergate = both.read(
        assign='{"partitions":[0,2]}',
        startingOffsets='{"partitions":{"0":7,"2":-2}}',
        endingOffsets=f'{{"partitions":{{"0":{first.stop_offset - 5},"2":20}}}}',
        minPartitions="6",
        maxRecordsPerPartition="9",
    )
    assert tiergate.schema == kafka.schema
    expected = rows_of(kafka)
    assert set(expected["partition"].to_pylist()) == {0, 2}
    assert rows_of(tiergate).equals(expected)


@pytest.mark.parametrize(
    "limits",
    [
        {"startingTimestamp": str(BASE_TIME_MS + 300), "endingTimestamp": str(BASE_TIME_MS + 6010)},
        {
            "startingOffsetsByTimestamp": f'{{"times":{{"0":{BASE_TIME_MS + 2000}}}}}',
            "endingOffsetsByTimestamp": f'{{"times":{{"0":{BASE_TIME_MS + 6100}}}}}',
        },
        {"startingOffsets": "earliest", "endingOffsets": '{"times":{"0":100}}'},
    ],
)
def test_limits_by_time_and_by_word_mean_the_same_rows(both: BothSources, limits: dict[str, str]) -> None:
    kafka, tiergate = both.read(subscribe="times", **limits)
    assert rows_of(tiergate).equals(rows_of(kafka))


def test_start_that_is_found_behind_the_end_is_an_error(both: BothSources) -> None:
    kafka, tiergate = both.read(
        subscribe="times", startingTimestamp=str(BASE_TIME_MS + 6050), endingTimestamp=str(BASE_TIME_MS)
    )
    with pytest.raises(Exception, match=r"start offset (\d+) is greater than the resolved end offset 0") as by_kafka:
        kafka.count()
    with pytest.raises(
        Exception, match=r"the read of times-0 would start at (\d+), behind its end at 0"
    ) as by_tiergate:
        tiergate.count()
    start = re.search(r"start offset (\d+)", str(by_kafka.value))
    assert start is not None
    assert f"would start at {start[1]}," in str(by_tiergate.value)


def test_time_later_than_every_record_is_an_error_or_nothing(both: BothSources) -> None:
    late = {"subscribe": "times", "startingTimestamp": str(2**60)}
    _, tiergate = both.read(**late)
    with pytest.raises(Exception, match="no record of times-0 in the tier is as late as"):
        tiergate.count()
    for frame in both.read(**late, startingOffsetsByTimestampStrategy="latest"):
        assert frame.count() == 0


def test_read_without_limits_is_all_that_is_tiered(
    spark: SparkSession, corpus: RecordCorpus, both: BothSources
) -> None:
    (tiered,) = (one for one in corpus.partitions if one.topic == "codecs")
    frame = spark.read.format("tiergate").options(target=corpus.target, subscribe="codecs").load()
    kafka, _ = both.read(subscribe="codecs", endingOffsets=_json(corpus, lambda one: one.stop_offset, topic="codecs"))
    assert rows_of(frame).equals(rows_of(kafka))
    assert frame.agg({"offset": "max"}).first()[0] == tiered.stop_offset - 1  # type: ignore[index] # there is a row


def test_verification_of_all_that_kafka_wrote_finds_no_damage(spark: SparkSession, corpus: RecordCorpus) -> None:
    verification = verify(spark, service=Service(corpus.target, None, "auto"))
    assert verification.findings.where("severity <> 'note'").collect() == []
    assert verification.summary.partitions == len(corpus.partitions)
    verification.close()


def test_profile_counts_the_records_that_the_consumer_is_given(spark: SparkSession, corpus: RecordCorpus) -> None:
    topics = ("codecs", "compacted", "partitions", "times")
    measured = profile(spark, topics, service=Service(corpus.target, None, "auto"))
    consumed = [
        (one.topic, row)
        for one in corpus.partitions
        if one.topic in topics
        for row in corpus.consumed(one, "read_uncommitted")
    ]
    for row in measured.topics.collect():
        records = [record for topic, record in consumed if topic == row.topic]
        assert row.records == len(records)
        assert row.null_keys == sum(record["key"] is None for record in records)
        assert row.tombstones == sum(record["value"] is None for record in records)
        keys = {record["key"] for record in records} - {None}
        assert row.distinct_keys == pytest.approx(len(keys), rel=0.06, abs=1)
    measured.close()
