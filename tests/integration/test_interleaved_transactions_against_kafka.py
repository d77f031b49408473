"""Transactions of many producers in random order: at every end of the tier, committed data is what Kafka says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.corpus_topics import CODECS, TRANSACTION_TIMEOUT_MS, CorpusTopics
from support.first_open_offset import first_open_offset
from support.in_process_tiergate import in_process_tiergate
from support.kafka_broker import running_broker
from support.kafka_jars import KafkaJarsMissing
from support.kafka_oracle import running_oracle
from support.kafka_records import End, KafkaRecords
from support.kafka_topics import KafkaTopics
from support.made_rows import made_rows
from support.tiering import tier_segments
from tiergate_client.records import ALL_COLUMNS
from tiergate_client.records.read_plan import IsolationLevel, plan_read
from tiergate_client.records.split_reading import read_split

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

STEPS = 70
ENDS: tuple[End, ...] = ("none", "open", "open", "commit", "abort")


@pytest.fixture(scope="module")
def records_and_topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaRecords, CorpusTopics]]:
    directory = tmp_path_factory.mktemp("interleaved")
    try:
        with (
            running_broker(
                directory / "kafka", log_retention_ms="-1", transaction_max_timeout_ms=TRANSACTION_TIMEOUT_MS
            ) as broker,
            running_oracle(directory) as oracle,
        ):
            records = KafkaRecords(broker, oracle)
            yield records, CorpusTopics(records, KafkaTopics(broker))
    except KafkaJarsMissing as missing:
        pytest.fail(str(missing))


def write_interleaved(topics: CorpusTopics, topic: str, random_numbers: random.Random) -> None:
    topics.create(topic)
    for _ in range(STEPS):
        name, write = random_numbers.choice([("java", topics.java), ("librdkafka", topics.librdkafka)])
        rows, codec = made_rows(random_numbers.randint(1, 9)), random_numbers.choice(CODECS)
        end = random_numbers.choice(ENDS)
        transaction = "" if end == "none" else f"{topic}-{name}-{random_numbers.randrange(3)}"
        write(topic, rows, codec=codec, end=end, transaction=transaction)
    topics.fill_segments(topic)


@pytest.mark.parametrize("with_snapshots", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_committed_data_is_what_kafka_says_at_every_end_of_the_tier(
    records_and_topics: tuple[KafkaRecords, CorpusTopics], seed: int, with_snapshots: bool, tmp_path: Path
) -> None:
    records, topics = records_and_topics
    random_numbers = random.Random(seed)
    topic = f"interleaved-{seed}-{with_snapshots}"
    write_interleaved(topics, topic, random_numbers)
    consumed = records.consumed(topic, isolation="read_committed")
    next_offset = 0
    with in_process_tiergate(tmp_path) as tiergate:
        while copied := tier_segments(
            tiergate, records.directory(topic), first=next_offset, limit=1, with_snapshots=with_snapshots
        ):
            next_offset = copied[0].end_offset + 1
            snapshot = records.directory(topic) / f"{next_offset:020d}.snapshot"
            first_open = first_open_offset(snapshot.read_bytes())
            stable_offset = next_offset if first_open is None else first_open
            start_offset = random_numbers.randrange(stable_offset + 1)
            plan = plan_read(
                tiergate.metadata,
                tiergate.storage,
                copied[0].partition,
                start_offset=start_offset,
                isolation=IsolationLevel.READ_COMMITTED,
                split_bytes=random_numbers.choice([1, 2_000, 9_000, 1 << 30]),
            )
            assert plan.stop_offset == stable_offset
            batches = [
                batch for split in plan.splits for batch in read_split(split, tiergate.storage, columns=ALL_COLUMNS)
            ]
            rows = [row for batch in batches for row in batch.to_pylist()]
            assert rows == [row for row in consumed if start_offset <= row["offset"] < stable_offset]
    assert next_offset > 100
