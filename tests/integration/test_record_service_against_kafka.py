"""What RecordService and `tiergate records` give is what Kafka's consumer is given, over the wire and to the byte."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

import pytest

from support.aborted_filter import AbortedFilter
from support.corpus_times import offsets_for_times
from support.kafka_records import Row
from support.record_corpus import CORPUS_TOPICS, RecordCorpus, TieredPartition
from tiergate_client import Record, RecordTimestampType
from tiergate_client.records import ALL_COLUMNS, decode_batches

pytestmark = pytest.mark.timeout(300)  # for the corpus, on a busy machine

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
TYPES = (RecordTimestampType.CREATE_TIME, RecordTimestampType.LOG_APPEND_TIME)


def rows_of(records: Iterable[Record]) -> list[Row]:
    """In the form in which the oracle tells what Kafka's consumer is given."""
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestamp_type": TYPES.index(record.timestamp_type),
            "key": record.key,
            "value": record.value,
            "headers": [{"key": header.key, "value": header.value} for header in record.headers],
        }
        for record in records
    ]


def read(corpus: RecordCorpus, tiered: TieredPartition, **options: Any) -> list[Row]:
    with corpus.tiergate.records.read_records(
        tiered.topic,
        tiered.partition.partition,
        topic_id=tiered.partition.topic_id,
        log_start_offset=tiered.log_start_offset,
        **options,
    ) as stream:
        return rows_of(stream)


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_records_and_splits_are_what_the_consumer_is_given(corpus: RecordCorpus, topic: str, isolation: str) -> None:
    for one in corpus.of_topic(topic):
        expected = corpus.consumed(one, isolation)
        assert expected
        assert read(corpus, one, isolation=isolation) == expected
        middle = expected[len(expected) // 2]["offset"]
        late = [row for row in expected if row["offset"] >= middle]
        assert read(corpus, one, isolation=isolation, start_offset=middle, max_records=40) == late[:40]
        plan = corpus.tiergate.records.plan_read(
            topic,
            one.partition.partition,
            topic_id=one.partition.topic_id,
            isolation=isolation,
            split_bytes=20_000,
            log_start_offset=one.log_start_offset,
        )
        assert (plan.start_offset, plan.stop_offset) == (one.log_start_offset, one.stop_for(isolation))
        rows: list[Row] = []
        for split in plan.splits:
            with corpus.tiergate.records.read_split(split) as stream:
                rows += rows_of(stream)
        assert rows == expected


def read_raw(corpus: RecordCorpus, tiered: TieredPartition, **options: Any) -> list[Row]:
    """As a client reads that decodes for itself."""
    rows: list[Row] = []
    with corpus.tiergate.records.read_raw_batches(
        tiered.topic,
        tiered.partition.partition,
        topic_id=tiered.partition.topic_id,
        log_start_offset=tiered.log_start_offset,
        **options,
    ) as stream:
        start_offset, aborted = stream.next_offset, AbortedFilter(stream.aborted)
        for run in stream:
            for batch in decode_batches(run, columns=ALL_COLUMNS, is_whole=True, keep=aborted.kept):
                rows += batch.to_pylist()
        assert stream.next_offset == stream.stop_offset
    # The first and the last batch may have others beside.
    return [row for row in rows if start_offset <= row["offset"] < stream.stop_offset]


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_raw_batches_are_decoded_to_what_the_consumer_is_given(
    corpus: RecordCorpus, topic: str, isolation: str
) -> None:
    for one in corpus.of_topic(topic):
        expected = corpus.consumed(one, isolation)
        assert read_raw(corpus, one, isolation=isolation) == expected
        middle = expected[len(expected) // 2]["offset"]
        late = [row for row in expected if row["offset"] >= middle]
        assert read_raw(corpus, one, isolation=isolation, start_offset=middle) == late
        assert read_raw(corpus, one, isolation=isolation, stop_offset=middle) == expected[: -len(late)]


@pytest.mark.parametrize("topic", ["compacted", "deleted-after", "epochs", "transactions"])
@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_no_record_is_lost_or_doubled_by_reads_that_go_on_by_offset(
    corpus: RecordCorpus, topic: str, isolation: str
) -> None:
    one = corpus.of(topic)
    rows: list[Row] = []
    next_offset = one.log_start_offset
    while next_offset < one.stop_for(isolation):
        with corpus.tiergate.records.read_records(
            topic, 0, isolation=isolation, start_offset=next_offset, max_records=37
        ) as stream:
            rows += rows_of(stream)
            assert stream.next_offset > next_offset
            next_offset = stream.next_offset
    assert rows == corpus.consumed(one, isolation)


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_offset_of_a_time_is_the_one_that_the_broker_finds(corpus: RecordCorpus, topic: str, isolation: str) -> None:
    for one in corpus.of_topic(topic):
        for time, expected in offsets_for_times(corpus, one, isolation=isolation, at_most=15).items():
            found = corpus.tiergate.records.find_offset_by_time(
                topic,
                one.partition.partition,
                time,
                topic_id=one.partition.topic_id,
                isolation=isolation,
                log_start_offset=one.log_start_offset,
            )
            assert (None if found is None else (found.offset, found.timestamp_ms, found.leader_epoch)) == expected


def tiergate_command(corpus: RecordCorpus, *words: str) -> list[str]:
    return [sys.executable, "-m", "tiergate_server", "--target", corpus.target, *words]


def test_command_prints_what_the_consumer_is_given(corpus: RecordCorpus) -> None:
    (one,) = corpus.of_topic("transactions")
    answer = subprocess.run(
        tiergate_command(corpus, "records", "transactions", "-p", "0", "--isolation", "read_committed", "-o", "json"),
        check=True,
        capture_output=True,
        text=True,
    )
    printed = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [
        {
            "offset": line["offset"],
            "timestamp": line["timestamp_ms"],
            "timestamp_type": ["CreateTime", "LogAppendTime"].index(line["timestamp_type"]),
            "key": decoded(line["key"]),
            "value": decoded(line["value"]),
            "headers": [{"key": it["key"], "value": decoded(it["value"])} for it in line["headers"]],
        }
        for line in printed
    ] == corpus.consumed(one, "read_committed")
    assert {line["partition"] for line in printed} == {0}


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def test_command_ends_quietly_when_nobody_reads_on(corpus: RecordCorpus) -> None:
    command = tiergate_command(corpus, "records", "codecs", "-o", "json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["partition"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1, "there was more to print than a pipe holds"
