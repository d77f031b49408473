"""The splits of a plan hold what a consumer would see: every record once, in order, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.replicated_logs import PARTITION, ReplicatedLog, random_log, sources
from support.tier_in_memory import TierInMemory
from support.tier_model import TierModel, consumed
from tiergate_client.errors import InvalidField, OffsetOutOfRange
from tiergate_client.records.history import load_history
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_read
from tiergate_client.records.split_reading import read_split
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState

COMMITTED = IsolationLevel.READ_COMMITTED


def tier_of(segments: int, *, batches: int = 4, first_segment: int = 0) -> TierInMemory:
    """Segments of so many batches of one record each, without gaps between offsets."""
    log = ReplicatedLog(random.Random(2))
    for number in range((first_segment + segments) * batches):
        log.append("commit", producer_id=number)
    for number in range(first_segment, first_segment + segments):
        log.copy(number * batches, (number + 1) * batches)
    return TierInMemory(log.copied)


def planned(tier: TierInMemory, **options: object) -> PartitionPlan:
    return plan_read(tier.metadata, tier.storage, PARTITION, **options)  # type: ignore[arg-type] # as the test says


def test_plan_of_an_empty_history_has_no_splits() -> None:
    plan = planned(TierInMemory([]), isolation=COMMITTED, min_timestamp_ms=5)
    assert plan == PartitionPlan(PARTITION, 0, 0, ())


def test_whole_segments_are_joined_without_asking_for_indexes() -> None:
    tier = tier_of(5)
    size = tier.finished[0].metadata.segment_size_bytes
    plan = planned(tier, split_bytes=2 * size)
    assert [(split.start_offset, split.stop_offset) for split in plan.splits] == [(0, 8), (8, 16), (16, 20)]
    assert all(split.size_bytes <= 2 * size for split in plan.splits)
    assert tier.asked == [(tier.finished[-1].metadata.segment_id, SegmentFile.LEADER_EPOCH)]


def test_indexes_are_asked_for_of_those_segments_alone_that_are_read_in_part() -> None:
    tier = tier_of(6)
    planned(tier, start_offset=5, stop_offset=22)
    ids = [copy.metadata.segment_id for copy in tier.finished]
    assert tier.asked_for(SegmentFile.OFFSET_INDEX) == {ids[1], ids[5]}
    assert tier.calls == 2


def test_number_of_calls_does_not_grow_with_each_segment() -> None:
    tier = tier_of(40, batches=2)
    planned(tier, isolation=COMMITTED, split_bytes=80)
    assert tier.calls <= 8


@pytest.mark.parametrize(
    "asked", [{"start_offset": 3}, {"stop_offset": 25}, {"start_offset": 25}, {"start_offset": 3, "stop_offset": 4}]
)
def test_offset_outside_of_the_tier_is_refused_with_its_bounds(asked: dict[str, int]) -> None:
    tier = tier_of(4, first_segment=1)
    with pytest.raises(OffsetOutOfRange) as refused:
        planned(tier, **asked)
    assert refused.value.details == {"earliest": "4", "latest": "20"}
    assert str(next(offset for offset in asked.values() if not 4 <= offset <= 20)) in refused.value.message


def test_offset_of_an_empty_history_is_refused_for_that() -> None:
    with pytest.raises(
        OffsetOutOfRange, match=r"^nothing of .* is tiered, also not at 5: ask for no offset, or accept"
    ):
        planned(TierInMemory([]), start_offset=5)


def test_what_lies_outside_of_the_tier_is_told_where_loss_is_accepted() -> None:
    tier = tier_of(4, first_segment=1)
    plan = planned(tier, start_offset=1, stop_offset=30, fail_on_data_loss=False)
    assert (plan.start_offset, plan.stop_offset, plan.holes) == (4, 20, ((1, 4), (20, 30)))
    plan = planned(tier, start_offset=25, stop_offset=30, fail_on_data_loss=False)
    assert (plan.start_offset, plan.stop_offset, plan.splits, plan.holes) == (20, 20, (), ((25, 30),))


def test_offsets_below_the_log_start_are_not_read() -> None:
    tier = tier_of(4)
    plan = planned(tier, log_start_offset=6)
    assert (plan.start_offset, plan.splits[0].start_offset) == (6, 6)
    with pytest.raises(OffsetOutOfRange):
        planned(tier, start_offset=5, log_start_offset=6)
    assert planned(tier, start_offset=5, log_start_offset=6, fail_on_data_loss=False).holes == ((5, 6),)
    assert planned(tier, log_start_offset=99) == PartitionPlan(PARTITION, 99, 99, ())


def test_end_of_the_tier_is_an_empty_read_and_no_error() -> None:
    assert planned(tier_of(2), start_offset=8) == PartitionPlan(PARTITION, 8, 8, ())
    assert planned(tier_of(2), start_offset=3, stop_offset=3).splits == ()


def test_hole_is_refused_by_its_offsets_or_told_and_skipped() -> None:
    tier = tier_of(4)
    tier.states[tier.finished[1].metadata.segment_id] = SegmentState.DELETE_STARTED
    with pytest.raises(OffsetOutOfRange, match="offsets 4 to 7") as refused:
        planned(tier)
    assert refused.value.details["missing"] == "4-7"
    plan = planned(tier, fail_on_data_loss=False)
    assert plan.holes == ((4, 8),)
    assert [(split.start_offset, split.stop_offset) for split in plan.splits] == [(0, 4), (8, 16)]
    assert planned(tier, start_offset=8).holes == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"split_bytes": 0},
        {"max_records": 0},
        {"start_offset": -1},
        {"log_start_offset": -1},
        {"start_offset": 3, "stop_offset": 2},
        {"stop_offset": -1},
    ],
)
def test_options_without_sense_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidField) as refused:
        planned(tier_of(1), **wrong)
    assert refused.value.details["field"] in wrong


def tier_with_an_abort_in_a_hole() -> tuple[TierInMemory, ReplicatedLog]:
    """Batches and segments: plain, open transaction, its end (missing), then the same producer commits another."""
    log = ReplicatedLog(random.Random(3))
    log.append("plain")
    log.append("transactional", producer_id=7, records=3)
    log.append("abort", producer_id=7)
    log.append("transactional", producer_id=7, records=2)
    log.append("commit", producer_id=7)
    for first, stop in ((0, 1), (1, 2), (2, 3), (3, 5)):
        log.copy(first, stop)
    tier = TierInMemory(log.copied)
    tier.states[log.copied[2].metadata.segment_id] = SegmentState.DELETE_STARTED
    return tier, log


def test_transaction_that_may_end_in_a_hole_behind_the_read_is_refused() -> None:
    tier, log = tier_with_an_abort_in_a_hole()
    hole_start = log.batches[2].base_offset
    with pytest.raises(OffsetOutOfRange, match="producers 7 may end"):
        planned(tier, stop_offset=hole_start, isolation=COMMITTED)
    assert planned(tier, stop_offset=hole_start).splits
    assert planned(tier, stop_offset=log.batches[1].base_offset, isolation=COMMITTED).splits


def test_transaction_that_may_end_in_a_hole_is_left_out_up_to_there_where_loss_is_accepted() -> None:
    tier, log = tier_with_an_abort_in_a_hole()
    plan = planned(tier, isolation=COMMITTED, fail_on_data_loss=False)
    assert consumed(plan, tier) == [*log.batches[0].rows, *log.batches[3].rows]


def random_tier(source: random.Random, *, steps: int, holes: bool) -> TierInMemory:
    tier = TierInMemory(random_log(source, steps=steps).copied)
    for id_ in tier.copies:
        if holes and source.random() < 0.1:
            tier.states[id_] = SegmentState.DELETE_STARTED
    return tier


def random_options(source: random.Random, latest: int) -> dict[str, int]:
    options: dict[str, int] = {"split_bytes": source.choice([1, 150, 400, 2000, 10**9])}
    if source.random() < 0.5:
        options["max_records"] = source.randint(1, 12)
    start = source.randint(0, latest)
    if source.random() < 0.6:
        options["start_offset"] = start
    if source.random() < 0.6:
        options["stop_offset"] = source.randint(options.get("start_offset", 0), latest + 3)
    if source.random() < 0.3:
        options["log_start_offset"] = source.randint(0, latest)
    return options


@given(sources(), st.integers(1, 90))
def test_every_record_of_the_newest_history_is_read_once(source: random.Random, steps: int) -> None:
    tier = random_tier(source, steps=steps, holes=True)
    if not tier.finished:
        return
    model = TierModel(tier.finished)
    options = random_options(source, max(model.offsets, default=0) + 1)
    plan = planned(tier, fail_on_data_loss=False, **options)
    start = max(options.get("start_offset", 0), options.get("log_start_offset", 0))
    stop = options.get("stop_offset", 10**9)
    assert consumed(plan, tier) == model.data(start, stop)
    told = {offset for hole in plan.holes for offset in range(*hole)}
    asked = range(options.get("start_offset", plan.start_offset), options.get("stop_offset", plan.stop_offset))
    readable = {offset for offset in model.offsets if offset >= options.get("log_start_offset", 0)}
    assert told == {offset for offset in asked if offset not in readable}
    for one, following in pairwise(plan.splits):
        assert one.stop_offset <= following.start_offset
        if one.stop_offset < following.start_offset:
            assert (one.stop_offset, following.start_offset) in plan.holes


@given(sources(), st.integers(1, 90))
def test_committed_records_are_read_up_to_the_first_open_transaction(source: random.Random, steps: int) -> None:
    tier = random_tier(source, steps=steps, holes=source.random() < 0.5)
    if not tier.finished:
        return
    model = TierModel(tier.finished)
    options = random_options(source, max(model.offsets, default=0) + 1)
    plan = planned(tier, fail_on_data_loss=False, isolation=COMMITTED, **options)
    start = max(options.get("start_offset", 0), options.get("log_start_offset", 0))
    first_open = model.first_open_offset
    stop = min(options.get("stop_offset", 10**9), 10**9 if first_open is None else first_open)
    assert consumed(plan, tier) == model.committed_data(max(start, plan.start_offset), stop)
    assert plan.stop_offset <= max(plan.start_offset, stop)


@settings(max_examples=50)
@given(sources(), st.integers(1, 90))
def test_reader_of_the_splits_gives_what_the_consumer_gives(source: random.Random, steps: int) -> None:
    tier = random_tier(source, steps=steps, holes=source.random() < 0.5)
    isolation = source.choice(list(IsolationLevel))
    options = random_options(source, 50)
    plan = planned(tier, isolation=isolation, fail_on_data_loss=False, **options)
    read = [
        (row["offset"], row["timestamp"])
        for split in plan.splits
        for batch in read_split(split, tier.storage, columns=("offset", "timestamp"))
        for row in batch.to_pylist()
    ]
    assert read == consumed(plan, tier)


@given(sources(), st.integers(1, 90))
def test_strict_plan_is_the_same_unless_something_is_missing(source: random.Random, steps: int) -> None:
    tier = random_tier(source, steps=steps, holes=source.random() < 0.5)
    isolation = source.choice(list(IsolationLevel))
    history = load_history(tier.metadata, tier.storage, PARTITION)
    options = random_options(source, max(1, history.stop_offset))
    earliest = max(history.start_offset, options.get("log_start_offset", 0))
    latest = max(history.stop_offset, earliest)
    named = [options[name] for name in ("start_offset", "stop_offset") if name in options]
    is_outside = any(not earliest <= offset <= latest for offset in named)
    lossy = planned(tier, isolation=isolation, fail_on_data_loss=False, **options)
    try:
        strict = planned(tier, isolation=isolation, **options)
    except OffsetOutOfRange:
        assert is_outside or history.holes(earliest, history.stop_offset)
        return
    assert not is_outside
    assert not strict.holes
    assert strict == lossy


@given(sources(), st.integers(20, 90))
def test_pruning_by_time_leaves_out_nothing_that_is_young_enough(source: random.Random, steps: int) -> None:
    tier = random_tier(source, steps=steps, holes=False)
    if not tier.finished:
        return
    model = TierModel(tier.finished)
    times = [timestamp for _, timestamp in model.data(0, 10**9)] or [0]
    least = source.choice(times) + source.randint(-2, 2)
    isolation = source.choice(list(IsolationLevel))
    whole = planned(tier, isolation=isolation, fail_on_data_loss=False)
    pruned = planned(tier, isolation=isolation, fail_on_data_loss=False, min_timestamp_ms=least, split_bytes=300)
    assert (pruned.start_offset, pruned.stop_offset) == (whole.start_offset, whole.stop_offset)
    young = [row for row in consumed(whole, tier) if row[1] >= least]
    rows = consumed(pruned, tier)
    assert [row for row in rows if row[1] >= least] == young
    assert set(rows) <= set(consumed(whole, tier))


def test_pruning_by_time_leaves_out_old_segments_and_old_bytes() -> None:
    log = ReplicatedLog(random.Random(4))
    for number in range(60):
        log.now_ms += 1000
        log.append("commit", producer_id=number)
    for first in range(0, 60, 20):
        log.copy(first, first + 20)
    tier = TierInMemory(log.copied)
    least = log.batches[35].max_timestamp_ms
    plan = planned(tier, min_timestamp_ms=least)
    assert 20 < plan.splits[0].start_offset <= 35
    assert plan.splits[-1].stop_offset == 60
    assert tier.asked_for(SegmentFile.TIME_INDEX) == {log.copied[1].metadata.segment_id}
    assert planned(tier, min_timestamp_ms=log.now_ms + 1).splits == ()


def test_segment_of_unknown_age_is_not_pruned() -> None:
    tier = tier_of(1)
    (copy,) = tier.finished
    without_time = replace(copy, metadata=replace(copy.metadata, max_timestamp_ms=-1))
    young = copy.batches[-1].max_timestamp_ms
    assert planned(TierInMemory([without_time]), min_timestamp_ms=young).splits
