"""The decoder reads from a broker's files what Kafka's classes read from them and what its consumer is given."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.first_open_offset import first_open_offset
from support.kafka_broker import running_broker
from support.kafka_jars import KafkaJarsMissing
from support.kafka_oracle import running_oracle
from support.kafka_records import KafkaRecords, Row
from support.kafka_topics import KafkaTopics
from support.made_rows import made_rows
from support.slow_decoder import slow_rows_until_defect
from support.waiting import wait_until
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import (
    ALL_COLUMNS,
    AbortedTransaction,
    Codec,
    OffsetIndex,
    ReadCommitted,
    TimeIndex,
    TransactionIndex,
    decode_batches,
    scan_batches,
)
from tiergate_client.records.engines import EngineName

ENGINES: tuple[EngineName, ...] = ("numba", "numpy")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka_and_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaRecords, KafkaTopics]]:
    try:
        # The records are of 2023: a broker would delete them when it looks at retention for the first time.
        with (
            running_broker(
                tmp_path_factory.mktemp("kafka"), log_cleaner_backoff_ms="100", log_retention_ms="-1"
            ) as broker,
            running_oracle(tmp_path_factory.mktemp("oracle")) as oracle,
        ):
            yield KafkaRecords(broker, oracle), KafkaTopics(broker)
    except KafkaJarsMissing as missing:
        pytest.fail(str(missing))


@pytest.fixture
def records(kafka_and_topics: tuple[KafkaRecords, KafkaTopics]) -> KafkaRecords:
    return kafka_and_topics[0]


@pytest.fixture
def topics(kafka_and_topics: tuple[KafkaRecords, KafkaTopics]) -> KafkaTopics:
    return kafka_and_topics[1]


def decoded(logs: list[Path], engine: EngineName, **options: Any) -> list[Row]:
    rows: list[Row] = []
    for log in logs:
        for batch in decode_batches(log.read_bytes(), columns=ALL_COLUMNS, engine_name=engine, **options):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def assert_read_alike(records: KafkaRecords, topic: str) -> list[Row]:
    logs = records.logs(topic)
    by_kafka = [row for log in logs for row in records.read_by_kafka(log)]
    for engine in ENGINES:
        assert decoded(logs, engine) == by_kafka
    assert records.consumed(topic) == by_kafka
    return by_kafka


def codecs_of(records: KafkaRecords, topic: str) -> set[Codec]:
    return {header.codec for log in records.logs(topic) for header in scan_batches(log.read_bytes())}


def test_every_codec_of_both_producers_is_read_in_one_partition(records: KafkaRecords, topics: KafkaTopics) -> None:
    topics.create("codecs")
    written = 0
    for codec in CODECS:
        for produce in (records.produce_with_java, records.produce_with_librdkafka):
            produce("codecs", made_rows(400), config={"compression.type": codec})
            written += 400
    assert len(assert_read_alike(records, "codecs")) == written
    assert codecs_of(records, "codecs") == set(Codec)
    log = b"".join(path.read_bytes() for path in records.logs("codecs"))
    snappy = [
        log[header.position + 61 :].startswith(b"\x82SNAPPY\x00")
        for header in scan_batches(log)
        if header.codec is Codec.SNAPPY
    ]
    assert {True, False} == set(snappy)


def test_damaged_segment_of_a_broker_is_refused_or_read_as_by_the_plain_decoder(
    records: KafkaRecords, topics: KafkaTopics
) -> None:
    topics.create("damaged")
    for codec in CODECS:
        for produce in (records.produce_with_java, records.produce_with_librdkafka):
            produce("damaged", made_rows(8), config={"compression.type": codec})
    (log,) = records.logs("damaged")
    content = log.read_bytes()
    random_numbers = random.Random(len(content))
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(random_numbers.choice([1, 1, 4])):
            changed[random_numbers.randrange(len(changed))] = random_numbers.choice([0, 1, 127, 128, 255])
        check_crc = random_numbers.random() < 0.2
        expected = slow_rows_until_defect(bytes(changed), check_crc=check_crc)
        for engine in ENGINES:
            rows: list[Row] = []
            position = None
            try:
                for batch in decode_batches(changed, columns=ALL_COLUMNS, check_crc=check_crc, engine_name=engine):
                    rows += batch.to_pylist()
            except CorruptBatch as error:
                position = int(error.details["position"])
            assert (rows, position) == expected


def test_log_append_time_is_every_records_time(records: KafkaRecords, topics: KafkaTopics) -> None:
    topics.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        records.produce_with_java("append-time", made_rows(50), config={"compression.type": codec})
    rows = assert_read_alike(records, "append-time")
    assert {row["timestamp_type"] for row in rows} == {1}
    assert all(abs(row["timestamp"] - time.time() * 1000) < 600_000 for row in rows)


def test_committed_data_is_what_a_consumer_of_committed_data_is_given(
    records: KafkaRecords, topics: KafkaTopics
) -> None:
    topics.create("transactions")
    for number, produce in enumerate((records.produce_with_java, records.produce_with_librdkafka)):
        for end in ("commit", "abort", "abort", "commit"):
            produce("transactions", made_rows(30), end=end, config={"transactional.id": f"transaction-{number}"})
        produce("transactions", made_rows(20))
    expected = records.consumed("transactions", isolation="read_committed")
    assert len(expected) == 160
    assert len(assert_read_alike(records, "transactions")) == 280
    logs = records.logs("transactions")
    aborted = [transaction for log in logs for transaction in _aborted(log)]
    assert len(aborted) == 4
    for engine in ENGINES:
        assert decoded(logs, engine, keep=ReadCommitted(aborted).kept) == expected


def _aborted(log: Path) -> tuple[AbortedTransaction, ...]:
    index = log.with_suffix(".txnindex")
    return TransactionIndex.parse(index.read_bytes()).transactions if index.exists() else ()


def test_what_compaction_left_is_read(records: KafkaRecords, topics: KafkaTopics, tmp_path: Path) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "200",
        "delete.retention.ms": "86400000",
    }
    topics.create("compacted", config=config)
    for codec in CODECS:
        keyed = [{**row, "key": row["key"] or b"one"} for row in made_rows(200, keys=20)]
        records.produce_with_java("compacted", keyed, config={"compression.type": codec})
        records.produce_with_librdkafka(
            "compacted", keyed, end="abort", config={"compression.type": codec, "transactional.id": "compacted"}
        )

    def is_cleaned() -> bool:
        records.produce_with_java("compacted", [{**made_rows(1)[0], "key": b"rolls the segment"}])
        headers = [header for log in rolled_content(records, "compacted") for header in scan_batches(log)]
        has_holes = any(header.record_count <= header.last_offset - header.base_offset for header in headers)
        return has_holes and any(header.delete_horizon_ms is not None for header in headers)

    wait_until(is_cleaned, timeout_s=60)
    rows = 0
    for number, content in enumerate(rolled_content(records, "compacted")):
        copied = tmp_path / f"{number:020d}.log"
        copied.write_bytes(content)
        by_kafka = records.read_by_kafka(copied)
        for engine in ENGINES:
            assert decoded([copied], engine, is_whole=True) == by_kafka
        rows += len(by_kafka)
    assert 20 <= rows < 2000


def rolled_content(records: KafkaRecords, topic: str) -> list[bytes]:
    """Of all segments but the active one; cleaning may take files away meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            return [log.read_bytes() for log in records.logs(topic)[:-1]]


def test_indexes_are_true_to_the_log(records: KafkaRecords, topics: KafkaTopics) -> None:
    topics.create("indexed", config={"segment.bytes": str(1 << 20)})
    for codec in ("none", "lz4", "none"):
        records.produce_with_java("indexed", made_rows(1500), config={"compression.type": codec, "batch.size": "4000"})
    rolled = records.logs("indexed")[:-1]
    assert rolled
    for log in rolled:
        content = log.read_bytes()
        index = OffsetIndex.parse(log.with_suffix(".index").read_bytes(), base_offset=int(log.stem))
        headers = list(scan_batches(content, is_whole=True))
        times = TimeIndex.parse(log.with_suffix(".timeindex").read_bytes(), base_offset=int(log.stem))
        assert len(index.offsets) > 10
        assert times.offsets
        for entry_time, entry_offset in zip(times.timestamps_ms, times.offsets, strict=True):
            assert max(one.max_timestamp_ms for one in headers if one.last_offset <= entry_offset) <= entry_time
        for header in headers:
            for offset in (header.base_offset, header.last_offset):
                position = index.floor(offset)
                found = next(one for one in scan_batches(content[position:]) if one.last_offset >= offset)
                assert position + found.position == header.position


def test_open_transaction_stands_in_the_snapshot_of_a_rolled_segment(
    records: KafkaRecords, topics: KafkaTopics
) -> None:
    topics.create("open", config={"segment.ms": "200"})
    records.produce_with_java("open", made_rows(7))
    records.produce_with_java("open", made_rows(5), end="open", config={"transactional.id": "left-open"})

    def open_offsets() -> set[int | None]:
        records.produce_with_java("open", made_rows(1))
        rolled = records.logs("open")[1:]
        snapshots = [log.with_suffix(".snapshot").read_bytes() for log in rolled]
        return {first_open_offset(snapshot) for snapshot in snapshots}

    wait_until(lambda: 7 in open_offsets())
    assert len(records.consumed("open", isolation="read_committed")) == 7
