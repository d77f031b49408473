"""What is asked for to plan a partition, into how many splits it is divided, and what is told of its end."""

from __future__ import annotations

import logging
import random
from itertools import pairwise

import pytest

from support.dense_logs import dense_log
from support.replicated_logs import PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.records.history import load_history
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState
from tiergate_spark.bounds import Bounds, Interval
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import offsets_json
from tiergate_spark.options import parse_options
from tiergate_spark.planning import PartitionRead, plan_reads

SEGMENTS, BATCHES = 6, 4


@pytest.fixture
def tier() -> TierInMemory:
    """Segments of four batches of one record each."""
    log = ReplicatedLog(random.Random(2))
    for number in range(SEGMENTS * BATCHES):
        log.append("commit", producer_id=number)
    for number in range(SEGMENTS):
        log.copy(number * BATCHES, (number + 1) * BATCHES)
    return TierInMemory(log.copied)


def planned(tier: TierInMemory, lower: int, stop: int, **given: str) -> PartitionPlan:
    options = parse_options({"target": "unused:1", "subscribe": PARTITION.topic, **given})
    history = load_history(tier.metadata, tier.storage, PARTITION)
    read = PartitionRead(history, tier.storage, options, Bounds(offsets=Interval(lower, stop)))
    return read.plan(options.split_bytes, options.max_records_per_partition)


def delete(tier: TierInMemory, segment: int) -> None:
    tier.states[tier.finished[segment].metadata.segment_id] = SegmentState.DELETE_STARTED


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_filter_on_offsets_asks_for_offset_indexes_of_what_it_lets_through(tier: TierInMemory, isolation: str) -> None:
    plan = planned(tier, 9, 11, maxRecordsPerPartition="1", **{"kafka.isolation.level": isolation})
    assert (plan.splits[0].start_offset, plan.splits[-1].stop_offset) == (9, 11)
    assert tier.asked_for(SegmentFile.OFFSET_INDEX) == {tier.finished[2].metadata.segment_id}


def test_hole_outside_of_what_a_filter_lets_through_is_an_error_all_the_same(tier: TierInMemory) -> None:
    delete(tier, 4)
    with pytest.raises(OffsetOutOfRange, match=r"offsets 16 to 19: .*\(failOnDataLoss=false\)"):
        planned(tier, 9, 11)
    assert planned(tier, 9, 11, failOnDataLoss="false").holes == ()
    assert planned(tier, 9, 18, failOnDataLoss="false").holes == ((16, 18),)


def test_filter_that_lets_nothing_through_asks_for_nothing(tier: TierInMemory) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    assert planned(tier, 50, 60, maxRecordsPerPartition="1", **committed).splits == ()
    assert [file for _, file in tier.asked] == [SegmentFile.LEADER_EPOCH]


def read_of(log: ReplicatedLog, **given: str) -> PartitionRead:
    tier = TierInMemory(log.copied)
    options = parse_options({"target": "unused:1", "subscribe": PARTITION.topic, **given})
    return PartitionRead(load_history(tier.metadata, tier.storage, PARTITION), tier.storage, options, Bounds())


@pytest.mark.parametrize(
    ("given", "splits", "most_offsets"),
    [
        ({"maxRecordsPerPartition": "100"}, range(40, 42), 100),
        ({"maxRecordsPerPartition": "700"}, range(6, 9), 700),
        ({"minPartitions": "10"}, range(10, 13), 400),
        ({"minPartitions": "10", "maxRecordsPerPartition": "1000"}, range(10, 13), 400),
        ({"minPartitions": "2"}, range(2, 5), 4000),
        ({"minPartitions": "4000"}, range(4000, 4001), 1),
        ({"minPartitions": "5000"}, range(4000, 4001), 1),
    ],
)
def test_numbers_of_splits_and_of_their_offsets_are_kept_however_large_batches_are(
    given: dict[str, str], splits: range, most_offsets: int
) -> None:
    read = read_of(dense_log([1000] * 4), **given)
    (plan,) = plan_reads([read], options=parse_options({"target": "unused:1", "subscribe": PARTITION.topic, **given}))
    found = [(split.start_offset, split.stop_offset) for split in plan.splits]
    assert (found[0][0], found[-1][1]) == (0, 4000)
    assert all(before[1] == behind[0] for before, behind in pairwise(found))
    assert len(found) in splits
    assert max(stop - start for start, stop in found) <= most_offsets


def test_end_that_is_named_and_not_decided_is_a_loss() -> None:
    log = ReplicatedLog(random.Random(1))
    log.append("plain")
    log.append("transactional", producer_id=7)
    log.append("plain")
    log.copy(0, len(log.batches))
    committed = {"kafka.isolation.level": "read_committed"}
    stop = log.batches[-1].last_offset + 1
    begun = log.batches[1].base_offset
    named = read_of(log, endingOffsets=offsets_json({(PARTITION.topic, PARTITION.partition): stop}), **committed)
    with pytest.raises(
        OffsetOutOfRange, match=rf"can be read up to {begun} now, not up to {stop}: a transaction is not"
    ):
        named.report_losses(named.plan(2**30, None), DataLoss(is_error=True))
    for others in ({}, {"endingTimestamp": str(log.now_ms + 1)}):
        read = read_of(log, **others, **committed)
        plan = read.plan(2**30, None)
        assert plan.stop_offset == begun
        read.report_losses(plan, DataLoss(is_error=True))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    ("start", "bounds"),
    [(150, Bounds()), (-2, Bounds(offsets=Interval(150))), (150, Bounds(offsets=Interval(160, 190)))],
)
def test_end_behind_the_tier_is_no_open_transaction_however_far_behind_the_start_is(
    tier: TierInMemory, caplog: pytest.LogCaptureFixture, isolation: str, start: int, bounds: Bounds
) -> None:
    place = PARTITION.topic, PARTITION.partition
    options = parse_options(
        {
            "target": "unused:1",
            "subscribe": PARTITION.topic,
            "failOnDataLoss": "false",
            "startingOffsets": offsets_json({place: start}),
            "endingOffsets": offsets_json({place: 200}),
            "kafka.isolation.level": isolation,
        }
    )
    history = load_history(tier.metadata, tier.storage, PARTITION)
    read = PartitionRead(history, tier.storage, options, bounds)
    with caplog.at_level(logging.WARNING):
        read.report_losses(read.plan(2**30, None), DataLoss(is_error=False))
    assert not any("transaction" in message for message in caplog.messages)


def test_time_that_may_be_in_a_hole_is_a_loss(tier: TierInMemory) -> None:
    time_ms = str(tier.finished[4].batches[0].max_timestamp_ms)
    delete(tier, 3)
    history = load_history(tier.metadata, tier.storage, PARTITION)
    given = {"target": "unused:1", "subscribe": PARTITION.topic, "startingTimestamp": time_ms}
    with pytest.raises(OffsetOutOfRange, match=r"offsets 12 to 15: .*\(failOnDataLoss=false\)"):
        PartitionRead(history, tier.storage, parse_options(given), Bounds())
    PartitionRead(history, tier.storage, parse_options({**given, "failOnDataLoss": "false"}), Bounds())


def test_start_behind_all_that_is_there_is_told_where_loss_is_accepted(
    tier: TierInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"target": "unused:1", "subscribe": PARTITION.topic, "failOnDataLoss": "false"}
    start = offsets_json({(PARTITION.topic, PARTITION.partition): 5000})
    options = parse_options({**given, "startingOffsets": start})
    history = load_history(tier.metadata, tier.storage, PARTITION)
    read = PartitionRead(history, tier.storage, options, Bounds())
    plan = read.plan(2**30, None)
    assert plan.splits == ()
    with caplog.at_level(logging.WARNING):
        read.report_losses(plan, DataLoss(is_error=False))
    assert caplog.messages == ["orders-0 ends at offset 24, before the start 5000: what is lost is skipped"]
