"""What is asked for to plan a partition of which a filter lets little through."""

from __future__ import annotations

import random

import pytest

from support.replicated_logs import PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.records.history import load_history
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState
from tiergate_spark.bounds import Bounds, Interval
from tiergate_spark.options import parse_options
from tiergate_spark.planning import PartitionRead

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
    return read.plan(options.split_bytes)


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
