"""What is read from the tier is what Kafka's consumer is given: the same records, times and stable offsets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.corpus_times import offsets_for_times
from support.first_open_offset import first_open_offset
from support.in_process_tiergate import InProcessTiergate, in_process_tiergate
from support.kafka_records import Row
from support.record_corpus import CORPUS_TOPICS, RecordCorpus, TieredPartition
from support.tiering import tier_segments
from support.without_snapshots import WithoutSnapshots
from tiergate_client.records import ALL_COLUMNS
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_read
from tiergate_client.records.remembered_scans import REMEMBERED_SCANS
from tiergate_client.records.split_reading import raw_batches, read_split
from tiergate_client.records.time_lookup import find_offset_by_time
from tiergate_client.records.transactions import last_stable_offset
from tiergate_client.values import RemoteLogSegmentMetadata

pytestmark = pytest.mark.timeout(300)  # for the corpus, on a busy machine

TINY_SPLIT_BYTES = 1
SPLIT_BYTES = (3_000, 40_000, 1 << 30)


def history_of(corpus: RecordCorpus, tiered: TieredPartition) -> PartitionHistory:
    return load_history(corpus.tiergate.metadata, corpus.tiergate.storage, tiered.partition)


def planned(corpus: RecordCorpus, tiered: TieredPartition, **options: Any) -> PartitionPlan:
    return plan_read(
        corpus.tiergate.metadata,
        corpus.tiergate.storage,
        tiered.partition,
        log_start_offset=tiered.log_start_offset,
        **options,
    )


def rows_of(corpus: RecordCorpus, plan: PartitionPlan) -> list[Row]:
    batches = [
        batch for split in plan.splits for batch in read_split(split, corpus.tiergate.storage, columns=ALL_COLUMNS)
    ]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", IsolationLevel)
def test_every_record_is_read_as_the_consumer_is_given_it(
    corpus: RecordCorpus, topic: str, isolation: IsolationLevel
) -> None:
    for one in corpus.of_topic(topic):
        expected = corpus.consumed(one, isolation)
        assert expected
        for split_bytes in SPLIT_BYTES:
            plan = planned(corpus, one, isolation=isolation, split_bytes=split_bytes)
            assert (plan.start_offset, plan.stop_offset) == (one.log_start_offset, one.stop_for(isolation))
            assert all(before.stop_offset == behind.start_offset for before, behind in pairwise(plan.splits))
            assert rows_of(corpus, plan) == expected


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", IsolationLevel)
def test_any_range_of_offsets_is_read_as_the_consumer_is_given_it(
    corpus: RecordCorpus, topic: str, isolation: IsolationLevel
) -> None:
    random_numbers = random.Random(7)
    for one in corpus.of_topic(topic):
        expected = corpus.consumed(one, isolation)
        stop_offset = one.stop_for(isolation)
        for _ in range(8):
            start, stop = sorted(random_numbers.choices(range(one.log_start_offset, stop_offset + 1), k=2))
            stop = min(stop, start + 60)
            split_bytes = random_numbers.choice([TINY_SPLIT_BYTES, *SPLIT_BYTES])
            plan = planned(
                corpus, one, isolation=isolation, start_offset=start, stop_offset=stop, split_bytes=split_bytes
            )
            assert rows_of(corpus, plan) == [row for row in expected if start <= row["offset"] < stop]


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
def test_committed_data_ends_where_the_broker_said(corpus: RecordCorpus, topic: str) -> None:
    for one in corpus.of_topic(topic):
        assert last_stable_offset(history_of(corpus, one), corpus.tiergate.storage) == one.stable_offset


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
def test_committed_data_is_the_same_where_no_segment_has_a_snapshot(corpus: RecordCorpus, topic: str) -> None:
    """Also where the history goes round what another leader wrote, and a scan has to go the same way."""
    for one in corpus.of_topic(topic):
        REMEMBERED_SCANS.forget()  # or the second test of a partition would scan nothing
        without = WithoutSnapshots(corpus.tiergate.storage)
        plan = plan_read(
            corpus.tiergate.metadata,
            without.storage,
            one.partition,
            log_start_offset=one.log_start_offset,
            isolation=IsolationLevel.READ_COMMITTED,
            split_bytes=3_000,
        )
        assert without.missed
        assert (plan.start_offset, plan.stop_offset) == (one.log_start_offset, one.stable_offset)
        assert rows_of(corpus, plan) == corpus.consumed(one, IsolationLevel.READ_COMMITTED)


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
def test_offset_of_a_time_is_the_one_that_the_broker_finds(corpus: RecordCorpus, topic: str) -> None:
    for one in corpus.of_topic(topic):
        history = history_of(corpus, one)
        for time, expected in offsets_for_times(corpus, one).items():
            found = find_offset_by_time(history, corpus.tiergate.storage, time, start_offset=one.log_start_offset)
            assert (None if found is None else (found.offset, found.timestamp_ms, found.leader_epoch)) == expected


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
@pytest.mark.parametrize("isolation", IsolationLevel)
def test_late_enough_records_are_all_read_when_older_ones_are_left_out(
    corpus: RecordCorpus, topic: str, isolation: IsolationLevel
) -> None:
    for one in corpus.of_topic(topic):
        rows = corpus.consumed(one, isolation)
        times = sorted(row["timestamp"] for row in rows)
        for time in (times[0], times[len(times) // 2], times[-3], times[-1] + 1):
            plan = planned(corpus, one, isolation=isolation, min_timestamp_ms=time, split_bytes=3_000)
            late = [row for row in rows_of(corpus, plan) if row["timestamp"] >= time]
            assert late == [row for row in rows if row["timestamp"] >= time]


@pytest.mark.parametrize("topic", CORPUS_TOPICS)
def test_raw_batches_are_what_kafka_reads_as_the_same_records(corpus: RecordCorpus, topic: str, tmp_path: Path) -> None:
    for one in corpus.of_topic(topic):
        log = tmp_path / f"{one.partition.partition:020d}.log"
        plan = planned(corpus, one, split_bytes=3_000)
        log.write_bytes(b"".join(raw for split in plan.splits for raw in raw_batches(split, corpus.tiergate.storage)))
        read = [row for row in corpus.records.read_by_kafka(log) if row["offset"] >= one.log_start_offset]
        assert read == corpus.consumed(one, IsolationLevel.READ_UNCOMMITTED)


@pytest.mark.parametrize("with_snapshots", [True, False])
@pytest.mark.parametrize("topic", ["compacted", "epochs", "open", "transactions", "undecided-abort"])
def test_committed_data_grows_with_the_tier_as_kafkas_own_snapshots_say(
    corpus: RecordCorpus, topic: str, with_snapshots: bool, tmp_path: Path
) -> None:
    """Without the snapshots in the tier, what is open is found by a scan, and is the same."""
    one = corpus.of(topic)
    consumed = corpus.consumed(one, IsolationLevel.READ_COMMITTED)
    rows: list[Row] = []
    next_offset = 0
    with in_process_tiergate(tmp_path) as tiergate:
        for segment in tiered_one_by_one(tiergate, corpus.records.directory(topic), with_snapshots=with_snapshots):
            plan = plan_read(
                tiergate.metadata,
                tiergate.storage,
                one.partition,
                start_offset=next_offset,
                isolation=IsolationLevel.READ_COMMITTED,
            )
            first_open = first_open_offset(snapshot_behind(corpus, segment))
            stable_offset = segment.end_offset + 1 if first_open is None else first_open
            if with_snapshots or topic != "compacted":
                assert plan.stop_offset == stable_offset
            else:  # a scan does not see a transaction of which compaction has left nothing
                assert plan.stop_offset >= stable_offset
            for split in plan.splits:
                for batch in read_split(split, tiergate.storage, columns=ALL_COLUMNS):
                    rows += batch.to_pylist()
            next_offset = plan.stop_offset
            assert rows == [row for row in consumed if row["offset"] < next_offset]
    assert next_offset == one.stable_offset


def tiered_one_by_one(
    tiergate: InProcessTiergate, directory: Path, *, with_snapshots: bool
) -> Iterator[RemoteLogSegmentMetadata]:
    next_offset = 0
    while copied := tier_segments(tiergate, directory, first=next_offset, limit=1, with_snapshots=with_snapshots):
        yield copied[0]
        next_offset = copied[0].end_offset + 1


def snapshot_behind(corpus: RecordCorpus, segment: RemoteLogSegmentMetadata) -> bytes:
    directory = corpus.records.directory(segment.partition.topic)
    return (directory / f"{segment.end_offset + 1:020d}.snapshot").read_bytes()
