"""`readStream` of a real Spark: the rows of batch reads and of the broker, each once, whatever stops the query."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from support.gated_proxy import GatedProxy, gated_proxy
from support.planes import Planes
from support.record_corpus import RecordCorpus, TieredPartition
from support.tiering import tier_segments
from support.waiting import wait_until
from tiergate_client import Tiergate, connect
from tiergate_client.records import last_stable_offset, load_history
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.offsets import offsets_json

pytestmark = pytest.mark.timeout(300)

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
TESTS = Path(__file__).parents[1]

_numbers = count()


@pytest.fixture(scope="module")
def client(planes: Planes) -> Iterator[Tiergate]:
    """Of a tier into which the tests put segments of the corpus' broker, little by little."""
    with connect(planes.target) as connected:
        yield connected


def rows_of(frame: DataFrame) -> Any:
    """As an Arrow table in the order of the logs."""
    return frame.toArrow().sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def stream(spark: SparkSession, target: str, **options: str) -> DataFrame:
    return spark.readStream.format("tiergate").options(target=target, startingOffsets="earliest", **options).load()


def broker_rows(spark: SparkSession, corpus: RecordCorpus, topic: str, stop_offset: int, **options: str) -> Any:
    ending = offsets_json({(topic, 0): stop_offset})
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", corpus.bootstrap)
    return rows_of(frame.options(subscribe=topic, endingOffsets=ending, **options).load())


class Table:
    """A query into memory."""

    def __init__(self, frame: DataFrame) -> None:
        self.name = f"stream_{next(_numbers)}"
        self._frame = frame
        self._writer = frame.writeStream.format("memory").queryName(self.name)

    def run_to_the_end(self) -> list[int]:
        """Of what there is now; returns the number of rows of each batch."""
        query = self._writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def start(self) -> Any:
        return self._writer.start()

    def rows(self) -> Any:
        return rows_of(self._frame.sparkSession.table(self.name))


class Files:
    """A query into files, whose checkpoint is kept for the next run."""

    def __init__(self, directory: Path) -> None:
        self.output, self.checkpoint = directory / "output", directory / "checkpoint"

    def run_to_the_end(self, frame: DataFrame) -> None:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start(str(self.output)).awaitTermination()

    def rows(self, spark: SparkSession) -> Any:
        return rows_of(spark.read.parquet(str(self.output)))

    def planned(self) -> list[int]:
        return _numbered(self.checkpoint / "offsets")

    def finished(self) -> list[int]:
        return _numbered(self.checkpoint / "commits")

    def last_offset(self) -> str:
        return (self.checkpoint / "offsets" / str(self.planned()[-1])).read_text().splitlines()[-1]


def _numbered(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.glob("[0-9]*"))


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_every_kind_of_topic_streams_the_rows_of_batch_and_broker(
    spark: SparkSession, corpus: RecordCorpus, isolation: str
) -> None:
    def numbers(number: Any) -> str:
        """Of the partition of which nothing is tiered Kafka's source wants to be told too."""
        tiered = {(one.topic, one.partition.partition): number(one) for one in corpus.partitions}
        return offsets_json({**tiered, ("partitions", 3): 0})

    def stop(one: TieredPartition) -> int:
        return max(one.log_start_offset, one.stop_for(isolation))

    log_starts = numbers(lambda one: one.log_start_offset)
    asked = {
        "subscribePattern": "|".join({one.topic for one in corpus.partitions}),
        "startingOffsets": log_starts,
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
    }
    ours = {**asked, "target": corpus.target, "logStartOffset": log_starts}
    table = Table(spark.readStream.format("tiergate").options(**ours, maxOffsetsPerTrigger="3000").load())
    batches = table.run_to_the_end()
    assert len([rows for rows in batches if rows]) > 1
    streamed = table.rows()
    ending = numbers(stop)
    batch = spark.read.format("tiergate").options(**ours, endingOffsets=ending).load()
    kafka = spark.read.format("kafka").option("kafka.bootstrap.servers", corpus.bootstrap)
    expected = kafka.options(**asked, endingOffsets=ending).load()
    assert spark.table(table.name).schema == expected.schema
    assert streamed.equals(rows_of(expected))
    assert streamed.equals(rows_of(batch))


def test_segments_that_are_tiered_while_the_stream_runs_are_picked_up(
    spark: SparkSession, corpus: RecordCorpus, client: Tiergate, planes: Planes
) -> None:
    directory = corpus.records.directory("codecs")
    tiered = tier_segments(client, directory, limit=2)
    table = Table(stream(spark, planes.target, subscribe="codecs"))
    query = table.start()
    try:
        query.processAllAvailable()
        stop = tiered[-1].end_offset + 1
        assert table.rows().equals(broker_rows(spark, corpus, "codecs", stop))
        tiered = tier_segments(client, directory, first=stop)
        query.processAllAvailable()
        assert table.rows().equals(broker_rows(spark, corpus, "codecs", tiered[-1].end_offset + 1))
    finally:
        query.stop()


def test_query_goes_on_from_its_checkpoint_with_kafkas_offsets(
    spark: SparkSession, corpus: RecordCorpus, client: Tiergate, planes: Planes, tmp_path: Path
) -> None:
    isolation = {"kafka.isolation.level": "read_committed"}
    directory = corpus.records.directory("transactions")
    files = Files(tmp_path)
    tiered = tier_segments(client, directory, limit=5)
    # Which transactions are decided in the first segments differs from corpus to corpus.
    history = load_history(client.metadata, client.storage, tiered[0].partition)
    at_once = max(1, last_stable_offset(history, client.storage) // 3)
    files.run_to_the_end(
        stream(spark, planes.target, subscribe="transactions", maxOffsetsPerTrigger=str(at_once), **isolation)
    )
    assert len(files.finished()) > 1
    stop = json.loads(files.last_offset())["transactions"]["0"]
    assert files.rows(spark).equals(broker_rows(spark, corpus, "transactions", stop, **isolation))
    tiered += tier_segments(client, directory, first=tiered[-1].end_offset + 1)
    for _ in range(2):
        files.run_to_the_end(stream(spark, planes.target, subscribe="transactions", **isolation))
    stop = json.loads(files.last_offset())["transactions"]["0"]
    assert stop == corpus.of_topic("transactions")[0].stable_offset
    assert files.rows(spark).equals(broker_rows(spark, corpus, "transactions", stop, **isolation))
    # From the tier to the broker, which has a little more.
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", corpus.bootstrap)
    files.run_to_the_end(kafka.options(subscribe="transactions", **isolation).load())
    end = json.loads(files.last_offset())["transactions"]["0"]
    assert end > stop
    assert files.rows(spark).equals(broker_rows(spark, corpus, "transactions", end, **isolation))


def test_single_batch_of_few_columns_reads_all_that_there_is(
    spark: SparkSession, client: Tiergate, planes: Planes, tmp_path: Path
) -> None:
    sample = write_sample(tmp_path, topic="once", segments=2, segment_bytes=16 * 1024)
    stop = tier_segments(client, sample.directory)[-1].end_offset + 1
    seen: list[tuple[str, int]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        assert batch == 0
        seen.extend((str(row["topic"]), int(row["offset"])) for row in frame.collect())

    reader = spark.readStream.format("tiergate").schema("offset LONG, topic STRING")
    options = {"target": planes.target, "subscribe": "once", "startingTimestamp": "0", "maxOffsetsPerTrigger": "10"}
    query = reader.options(**options).load().writeStream.foreachBatch(keep).trigger(once=True).start()
    query.awaitTermination()
    batch = spark.read.format("tiergate").options(target=planes.target, subscribe="once").load()
    assert sorted(seen) == sorted((str(row["topic"]), int(row["offset"])) for row in batch.collect())
    assert query.lastProgress is not None
    assert json.loads(query.lastProgress.sources[0].latestOffset) == {"once": {"0": stop}}


@pytest.fixture
def proxy(planes: Planes) -> Iterator[GatedProxy]:
    with gated_proxy(planes.segments.address, hold_after_bytes=1024 * 1024) as running:
        yield running


def test_killed_driver_leaves_every_row_once_when_the_query_runs_again(
    spark: SparkSession, client: Tiergate, planes: Planes, proxy: GatedProxy, tmp_path: Path
) -> None:
    sample = write_sample(tmp_path, topic="killed", segments=3)
    tiered = tier_segments(client, sample.directory)
    options = {"subscribe": "killed", "segments": proxy.address, "access": "service", "maxOffsetsPerTrigger": "4000"}
    files = Files(tmp_path)
    proxy.shut()
    with running_query(files, {**options, "target": planes.target, "startingOffsets": "earliest"}, tmp_path) as killed:
        wait_until(lambda: proxy.held > 0 or killed.poll() is not None, timeout_s=180)
        assert killed.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        os.killpg(killed.pid, signal.SIGKILL)
    assert files.finished(), "it was killed before any batch was finished"
    assert files.planned()[-1] == files.finished()[-1] + 1, "it was not killed in the middle of a batch"
    proxy.open()
    files.run_to_the_end(stream(spark, planes.target, **options))
    batch = spark.read.format("tiergate").options(target=planes.target, subscribe="killed").load()
    assert files.rows(spark).equals(rows_of(batch))
    assert batch.agg({"offset": "max"}).collect()[0][0] == tiered[-1].end_offset


def running_query(files: Files, options: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    """In a process group of its own, as a JVM below a Python."""
    asked = {"options": options, "output": str(files.output), "checkpoint": str(files.checkpoint)}
    with (directory / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "support.streaming_driver", json.dumps(asked)],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.mark.parametrize("end", [{"endingOffsets": "latest"}, {"endingTimestamp": "1"}])
def test_end_is_refused_in_one_sentence(spark: SparkSession, planes: Planes, end: dict[str, str]) -> None:
    query = Table(stream(spark, planes.target, subscribe="any", **end))
    with pytest.raises(StreamingQueryException, match="a stream has no end; leave out endingOffsets") as caught:
        query.start().awaitTermination()
    assert "UnboundLocalError" not in str(caught.value)


def test_wrong_schema_is_refused_in_one_sentence(spark: SparkSession, planes: Planes) -> None:
    asked = spark.readStream.format("tiergate").options(target=planes.target, subscribe="any").schema("value STRING")
    with pytest.raises(StreamingQueryException, match="schema: value is binary, not string; cast it") as caught:
        Table(asked.load()).run_to_the_end()
    assert "UnboundLocalError" not in str(caught.value)


def test_deleted_range_fails_the_query_in_one_sentence(
    spark: SparkSession, client: Tiergate, planes: Planes, tmp_path: Path
) -> None:
    sample = write_sample(tmp_path, topic="lost", segments=2, segment_bytes=16 * 1024)
    tier_segments(client, sample.directory, first=100)
    table = Table(
        spark.readStream.format("tiergate")
        .options(target=planes.target, subscribe="lost", startingOffsets='{"lost":{"0":0}}')
        .load()
    )
    with pytest.raises(
        StreamingQueryException, match=r"the tier has lost-0 from offset .* not at the starting 0: ask within; failOn"
    ):
        table.start().awaitTermination()
