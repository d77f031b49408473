from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from unit.metadata.cache_scenarios import PARTITION, STEPS_TO, delete, finish, found, listed, segment, step

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.metadata.packed_partition_cache import PackedPartitionCache
from tiergate_server.metadata.partition_cache import PartitionCache, PartitionFigures
from tiergate_server.metadata.verdict import Applied, IllegalTransition, UnknownSegment

NOTHING = PartitionFigures(0, 0, 0, None, None)


@pytest.fixture
def cache() -> PartitionCache:
    return PackedPartitionCache(PARTITION)


def listings(cache: PartitionCache, epochs: Sequence[int]) -> list[tuple[list[SegmentId], int]]:
    """Segments and size of each epoch."""
    return [(listed(cache, epoch), cache.log_size(leader_epoch=epoch)) for epoch in epochs]


CONSEQUENCES: Mapping[str, tuple[Sequence[tuple[int, int]], Mapping[int, int | None], Sequence[int]]] = {
    # name: segments finished in this order, offset -> number of the segment found there, numbers in order of the list
    "longer replaces shorter": ([(0, 100), (0, 200)], {0: 1, 100: 1, 101: 1, 200: 1, 201: None}, [0, 1]),
    "shorter replaces longer": ([(0, 200), (0, 100)], {0: 1, 100: 1, 101: None, 150: None, 200: None}, [0, 1]),
    "wider replaces inner": (
        [(10, 90), (5, 100), (101, 200)],
        {4: None, 5: 1, 10: 1, 90: 1, 100: 1, 101: 2, 200: 2, 201: None},
        [1, 0, 2],
    ),
    "widest replaces all": (
        [(10, 100), (5, 150), (148, 155), (4, 200)],
        {3: None, 4: 3, 5: 3, 10: 3, 148: 3, 155: 3, 200: 3, 201: None},
        [3, 1, 0, 2],
    ),
    "inner hides the tail of the outer": (
        [(0, 100), (50, 80)],
        {0: 0, 49: 0, 50: 1, 80: 1, 81: None, 90: None},
        [0, 1],
    ),
}


@pytest.mark.parametrize(("ranges", "lookups", "order"), CONSEQUENCES.values(), ids=CONSEQUENCES.keys())
def test_overlapping_segments_are_found_as_kafka_finds_them(
    cache: PartitionCache, ranges: Sequence[tuple[int, int]], lookups: Mapping[int, int | None], order: Sequence[int]
) -> None:
    segments = [segment(number, start, end) for number, (start, end) in enumerate(ranges)]
    for each in segments:
        finish(cache, each)
    expected = {offset: None if number is None else segments[number].segment_id for offset, number in lookups.items()}
    assert {offset: found(cache, 0, offset) for offset in lookups} == expected
    # A replaced segment is never lost: it is listed, in its epoch too, until it is deleted.
    assert listed(cache, 0) == listed(cache) == [segments[number].segment_id for number in order]
    assert cache.highest_offset(leader_epoch=0) == max(end for _, end in ranges)


def test_repeated_finish_of_the_same_segment_changes_nothing(cache: PartitionCache) -> None:
    only = segment(1, 0, 100)
    finish(cache, only)
    before = (cache.segment(only.segment_id), listed(cache, 0), cache.highest_offset(leader_epoch=0), cache.figures())
    assert step(cache, only, SegmentState.COPY_FINISHED) == Applied()
    after = (cache.segment(only.segment_id), listed(cache, 0), cache.highest_offset(leader_epoch=0), cache.figures())
    assert after == before
    assert found(cache, 0, 50) == only.segment_id


def test_repeated_finish_takes_the_place_back_from_a_newer_segment(cache: PartitionCache) -> None:
    old, new = segment(1, 0, 100), segment(2, 0, 100)
    finish(cache, old)
    finish(cache, new)
    assert found(cache, 0, 50) == new.segment_id
    step(cache, old, SegmentState.COPY_FINISHED)
    assert found(cache, 0, 50) == old.segment_id


def test_deleting_the_replaced_segment_leaves_the_other_to_be_found(cache: PartitionCache) -> None:
    longer, shorter = segment(1, 0, 200), segment(2, 0, 100)
    finish(cache, longer)
    finish(cache, shorter)
    delete(cache, longer)
    assert found(cache, 0, 50) == shorter.segment_id
    assert listed(cache, 0) == [shorter.segment_id]


SEGMENTS = (
    segment(0, 0, 100, {0: 0, 1: 20, 2: 80}),
    segment(1, 101, 200, {2: 101}),
    segment(2, 201, 300, {2: 201, 3: 240}),
    segment(3, 250, 400, {3: 250, 4: 370}),
)


@pytest.fixture
def reference(cache: PartitionCache) -> PartitionCache:
    for each in SEGMENTS:
        finish(cache, each)
    return cache


@pytest.mark.parametrize(
    ("leader_epoch", "offset", "number"),
    [
        (1, 40, 0),
        (2, 110, 1),
        (3, 240, 2),
        (3, 250, 3),
        (4, 375, 3),
        (1, 110, None),
        (4, 401, None),
        (5, 301, None),
        (1, 85, None),
        (0, 20, None),
    ],
)
def test_reference_scenario_lookup(reference: PartitionCache, leader_epoch: int, offset: int, number: int) -> None:
    expected = None if number is None else SEGMENTS[number].segment_id
    assert found(reference, leader_epoch, offset) == expected


HIGHEST = {0: 19, 1: 79, 2: 239, 3: 369, 4: 400, 5: None}


def test_reference_scenario_highest_offsets_outlive_a_deleted_segment(reference: PartitionCache) -> None:
    assert {epoch: reference.highest_offset(leader_epoch=epoch) for epoch in HIGHEST} == HIGHEST
    delete(reference, SEGMENTS[0])
    assert {epoch: reference.highest_offset(leader_epoch=epoch) for epoch in HIGHEST} == HIGHEST


def test_reference_scenario_lists_by_epoch(reference: PartitionCache) -> None:
    members = {0: [0], 1: [0], 2: [0, 1, 2], 3: [2, 3], 4: [3], 5: []}
    for epoch, numbers in members.items():
        assert listed(reference, epoch) == [SEGMENTS[number].segment_id for number in numbers]


def test_segment_is_listed_but_not_found_before_it_is_finished(cache: PartitionCache) -> None:
    started = SEGMENTS[0]
    assert cache.apply_add(started) == Applied()
    assert listed(cache) == listed(cache, 0) == listed(cache, 2) == [started.segment_id]
    assert found(cache, 1, 40) is None
    assert cache.highest_offset(leader_epoch=1) is None
    assert cache.segment(started.segment_id) == started


def test_segment_is_listed_but_not_found_while_it_is_deleted(reference: PartitionCache) -> None:
    going = SEGMENTS[0]
    step(reference, going, SegmentState.DELETE_STARTED)
    assert going.segment_id in listed(reference)
    assert listed(reference, 1) == [going.segment_id]
    assert found(reference, 1, 40) is None
    assert reference.state_of(going.segment_id) is SegmentState.DELETE_STARTED


def test_segment_is_in_no_list_when_it_is_deleted(reference: PartitionCache) -> None:
    gone = SEGMENTS[0]
    delete(reference, gone)
    assert gone.segment_id not in listed(reference)
    assert listed(reference, 0) == listed(reference, 1) == []
    assert reference.segment(gone.segment_id) is None
    assert reference.state_of(gone.segment_id) is None


KNOWN_STATES = tuple(STEPS_TO)
LEGAL_UPDATES = {
    (SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED),
    (SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED),
    (SegmentState.COPY_FINISHED, SegmentState.COPY_FINISHED),
    (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
    (SegmentState.DELETE_STARTED, SegmentState.DELETE_STARTED),
    (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED),
}


def in_state(cache: PartitionCache, metadata: RemoteLogSegmentMetadata, state: SegmentState) -> None:
    cache.apply_add(metadata)
    for each in STEPS_TO[state]:
        step(cache, metadata, each)


@pytest.mark.parametrize("target", SegmentState)
@pytest.mark.parametrize("state", KNOWN_STATES)
def test_update_from_each_state_to_each_state(cache: PartitionCache, state: SegmentState, target: SegmentState) -> None:
    subject = segment(1, 0, 100)
    in_state(cache, subject, state)
    before = cache.segment(subject.segment_id)
    verdict = step(cache, subject, target)
    after = cache.segment(subject.segment_id)
    if (state, target) not in LEGAL_UPDATES:
        assert verdict == IllegalTransition(state, target)
        assert after == before
    else:
        assert verdict == Applied()
        assert (None if after is None else after.state) == (None if target is SegmentState.DELETE_FINISHED else target)


@pytest.mark.parametrize("target", SegmentState)
@pytest.mark.parametrize("was_deleted", [False, True])
def test_update_of_an_absent_segment_to_any_state(
    cache: PartitionCache, target: SegmentState, was_deleted: bool
) -> None:
    absent = segment(1, 0, 100)
    if was_deleted:
        finish(cache, absent)
        delete(cache, absent)
    assert step(cache, absent, target) == UnknownSegment()
    assert cache.figures() == NOTHING


@pytest.mark.parametrize("state", [SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED])
def test_add_over_a_later_state_is_dropped(cache: PartitionCache, state: SegmentState) -> None:
    subject = segment(1, 0, 100)
    in_state(cache, subject, state)
    before = cache.segment(subject.segment_id)
    assert cache.apply_add(segment(1, 5, 500)) == IllegalTransition(state, SegmentState.COPY_STARTED)
    assert cache.segment(subject.segment_id) == before


def test_add_over_copy_started_replaces_everything(cache: PartitionCache) -> None:
    cache.apply_add(segment(1, 0, 100, {0: 0, 1: 50}))
    other = segment(1, 200, 300, {1: 200, 2: 250})
    assert cache.apply_add(other) == Applied()
    assert cache.segment(other.segment_id) == other
    assert listed(cache) == listed(cache, 1) == listed(cache, 2) == [other.segment_id]


def test_segment_added_again_with_other_epochs_is_listed_in_both_until_it_is_deleted(cache: PartitionCache) -> None:
    # Kafka takes it out of no epoch. Once it is deleted Kafka fails to list the epochs that only the first Add had.
    cache.apply_add(segment(1, 0, 100, {0: 0, 1: 50}))
    second = segment(1, 200, 300, {2: 200})
    third = replace(segment(1, 210, 310, {1: 210, 3: 250}), segment_size_bytes=7)
    for added in (second, third):
        cache.apply_add(added)
    everywhere = [([third.segment_id], 7)] * 4
    assert listings(cache, range(4)) == everywhere
    for state in (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED):
        step(cache, third, state)
        assert listings(cache, range(4)) == everywhere
    step(cache, third, SegmentState.DELETE_FINISHED)
    assert listings(cache, range(4)) == [([], 0)] * 4
    cache.apply_add(second)
    assert listings(cache, range(4)) == [([], 0), ([], 0), ([second.segment_id], second.segment_size_bytes), ([], 0)]


def test_segment_is_found_only_in_the_epochs_of_its_last_add(cache: PartitionCache) -> None:
    cache.apply_add(segment(1, 0, 100, {0: 0}))
    again = segment(1, 0, 100, {1: 0})
    finish(cache, again)
    assert found(cache, 1, 50) == again.segment_id
    assert found(cache, 0, 50) is None
    assert cache.highest_offset(leader_epoch=0) is None


def test_add_after_complete_deletion_begins_a_new_life(cache: PartitionCache) -> None:
    subject = segment(1, 0, 100)
    finish(cache, subject)
    delete(cache, subject)
    assert cache.apply_add(subject) == Applied()
    assert cache.segment(subject.segment_id) == subject


@pytest.mark.parametrize("state", [each for each in SegmentState if each is not SegmentState.COPY_STARTED])
def test_add_that_carries_another_state_is_dropped(cache: PartitionCache, state: SegmentState) -> None:
    subject = segment(1, 0, 100)
    assert cache.apply_add(replace(subject, state=state)) == UnknownSegment()
    cache.apply_add(subject)
    assert cache.apply_add(replace(subject, state=state)) == IllegalTransition(SegmentState.COPY_STARTED, state)
    assert cache.segment(subject.segment_id) == subject


@pytest.mark.parametrize("custom_metadata", [None, b"", b"other"])
def test_update_replaces_custom_metadata_broker_and_time_and_nothing_else(
    cache: PartitionCache, custom_metadata: bytes | None
) -> None:
    subject = replace(segment(1, 0, 100, {0: 0, 3: 60}), txn_index_empty=True, max_timestamp_ms=-5, broker_id=1)
    cache.apply_add(subject)
    update = replace(
        subject.step(SegmentState.COPY_FINISHED, event_timestamp_ms=99), custom_metadata=custom_metadata, broker_id=2
    )
    cache.apply_update(update)
    assert cache.segment(subject.segment_id) == subject.updated_by(update)


def test_epoch_of_a_segment_may_end_before_it_begins(cache: PartitionCache) -> None:
    # Kafka does not compare the epochs' offsets with anything.
    odd = replace(segment(1, 10, 20), segment_leader_epochs=LeaderEpochs.of({0: 15, 1: 12}))
    finish(cache, odd)
    assert found(cache, 0, 15) is None
    assert cache.highest_offset(leader_epoch=0) == 11
    assert found(cache, 1, 12) == odd.segment_id


def test_pages_continue_strictly_after_the_key_even_when_it_is_gone(cache: PartitionCache) -> None:
    segments = [segment(number, start, start + 9) for number, start in enumerate([0, 10, 10, 10, 20])]
    for each in reversed(segments):
        finish(cache, each)
    ids = [each.segment_id for each in segments]
    first = cache.segments_after(leader_epoch=0, after=None, limit=2)
    assert [each.segment_id for each in first] == ids[:2]
    key = (first[-1].start_offset, first[-1].segment_id)
    second = cache.segments_after(leader_epoch=0, after=key, limit=2)
    assert [each.segment_id for each in second] == ids[2:4]
    delete(cache, segments[1])
    assert cache.segments_after(leader_epoch=0, after=key, limit=2) == second
    assert cache.segments_after(leader_epoch=None, after=key, limit=2) == second
    assert cache.segments_after(leader_epoch=0, after=(20, ids[4]), limit=2) == []


def test_figures_count_finished_segments_whether_found_or_not(cache: PartitionCache) -> None:
    inner, outer, started = segment(1, 10, 90), segment(2, 5, 100), segment(3, 101, 200)
    assert cache.figures() == NOTHING
    finish(cache, inner)
    finish(cache, outer)
    cache.apply_add(started)
    assert cache.figures() == PartitionFigures(3, 2, 1001 + 1002, 5, 100)
    step(cache, outer, SegmentState.DELETE_STARTED)
    assert cache.figures() == PartitionFigures(3, 1, 1001, 10, 90)
    step(cache, outer, SegmentState.DELETE_FINISHED)
    delete(cache, inner)
    assert cache.figures() == PartitionFigures(1, 0, 0, None, None)


def test_retention_over_a_long_history_keeps_order_and_figures(cache: PartitionCache) -> None:
    segments = [segment(number, number * 10, number * 10 + 9) for number in range(1000)]
    for position, each in enumerate(segments):
        finish(cache, each)
        if position >= 100:
            delete(cache, segments[position - 100])
            oldest = segments[position - 99]
            assert listed(cache, 0)[0] == found(cache, 0, oldest.start_offset) == oldest.segment_id
            assert found(cache, 0, oldest.start_offset - 1) is None
            assert cache.figures().start_offset == oldest.start_offset
    assert listed(cache) == [each.segment_id for each in segments[-100:]]
    assert cache.figures().segment_count == 100
