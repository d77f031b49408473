from __future__ import annotations

from dataclasses import replace

import pytest
from unit.metadata.cache_scenarios import PARTITION, segment

from support.metadata_answers import found_value
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.partition_cache import PartitionFigures
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.verdict import Applied, IllegalTransition, UnknownSegment

MARKED = PartitionDeleteState.DELETE_PARTITION_MARKED
STARTED = PartitionDeleteState.DELETE_PARTITION_STARTED
FINISHED = PartitionDeleteState.DELETE_PARTITION_FINISHED


def in_partition(metadata: RemoteLogSegmentMetadata, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    return replace(metadata, partition=partition)


def finish(state: MetadataState, metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """The segment as it is when it is added and finished."""
    update = metadata.step(SegmentState.COPY_FINISHED, event_timestamp_ms=7)
    state.apply(metadata)
    state.apply(update)
    return metadata.updated_by(update)


def known_partitions(state: MetadataState) -> list[TopicIdPartition]:
    return [partition for partition, _ in state.partitions_after(topic=None, after=None, limit=100)]


@pytest.fixture
def state() -> MetadataState:
    return MetadataState()


def test_partition_of_which_no_event_spoke_reads_as_empty(state: MetadataState) -> None:
    assert state.find(PARTITION, leader_epoch=0, offset=0) is None
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=0) is None
    assert state.highest_offset(PARTITION, leader_epoch=0) is None
    assert state.log_size(PARTITION, leader_epoch=0) == 0
    assert state.segments_after(PARTITION, leader_epoch=None, after=None, limit=10) == []
    assert state.segment(PARTITION, SegmentId(b"s" * 16)) is None
    assert state.search(SegmentId(b"s" * 16)) is None
    assert state.partition_delete_state(PARTITION) is None
    assert not state.is_deleted(PARTITION)
    assert state.topic_name(PARTITION.topic_id) is None
    assert not state.knows_topic(PARTITION.topic)
    assert known_partitions(state) == []


def test_segment_is_answered_by_every_question(state: MetadataState) -> None:
    finished = finish(state, segment(1, 0, 100))
    assert state.segment(PARTITION, finished.segment_id) == finished
    assert state.search(finished.segment_id) == finished
    assert found_value(state.find(PARTITION, leader_epoch=0, offset=100)) == finished
    assert state.find(PARTITION, leader_epoch=0, offset=101) is None
    assert state.highest_offset(PARTITION, leader_epoch=0) == 100
    assert state.segments_after(PARTITION, leader_epoch=0, after=None, limit=10) == [finished]
    assert state.segments_after(PARTITION, leader_epoch=0, after=(0, finished.segment_id), limit=10) == []
    assert state.topic_name(PARTITION.topic_id) == "topic"
    assert state.knows_topic("topic")


def test_name_in_the_question_does_not_matter(state: MetadataState) -> None:
    finished = finish(state, segment(1, 0, 100))
    renamed = TopicIdPartition(PARTITION.topic_id, PARTITION.partition, "other")
    assert state.segment(renamed, finished.segment_id) == finished
    assert not state.knows_topic("other")


def test_partitions_do_not_see_each_other(state: MetadataState) -> None:
    other_number = TopicIdPartition(PARTITION.topic_id, 1, "topic")
    other_topic = TopicIdPartition(TopicId(b"U" * 16), 0, "topic")
    finished = finish(state, segment(1, 0, 100))
    elsewhere = finish(state, in_partition(segment(2, 0, 100), other_number))
    for partition in (other_number, other_topic):
        assert state.segment(partition, finished.segment_id) is None
    assert found_value(state.find(PARTITION, leader_epoch=0, offset=5)) == finished
    assert found_value(state.find(other_number, leader_epoch=0, offset=5)) == elsewhere
    assert state.find(other_topic, leader_epoch=0, offset=5) is None
    assert state.search(elsewhere.segment_id) == elsewhere


def test_verdicts_are_passed_on_and_counted(state: MetadataState) -> None:
    subject = segment(1, 0, 100)
    update = subject.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=7)
    assert state.apply(update) == UnknownSegment()
    assert state.apply(subject) == Applied()
    assert state.apply(update) == IllegalTransition(SegmentState.COPY_STARTED, SegmentState.DELETE_FINISHED)
    assert (state.applied_events, state.dropped_events) == (1, 2)


def test_dropped_event_makes_its_partition_and_name_known(state: MetadataState) -> None:
    state.apply(segment(1, 0, 100).step(SegmentState.DELETE_STARTED, event_timestamp_ms=7))
    assert state.partitions_after(topic=None, after=None, limit=10) == [
        (PARTITION, PartitionFigures(0, 0, 0, None, None))
    ]
    assert state.knows_topic("topic")


@pytest.mark.parametrize("first", [MARKED, STARTED])
@pytest.mark.parametrize("second", [MARKED, STARTED])
def test_partition_delete_states_are_kept_as_they_come(
    state: MetadataState, first: PartitionDeleteState, second: PartitionDeleteState
) -> None:
    finished = finish(state, segment(1, 0, 100))
    for each in (first, second):
        assert state.apply(RemotePartitionDeleteMetadata(PARTITION, each)) == Applied()
        assert state.partition_delete_state(PARTITION) is each
    assert found_value(state.find(PARTITION, leader_epoch=0, offset=5)) == finished


@pytest.mark.parametrize("before", [[], [MARKED], [STARTED], [MARKED, STARTED]])
def test_finished_partition_delete_forgets_the_partition_but_not_the_name(
    state: MetadataState, before: list[PartitionDeleteState]
) -> None:
    other = TopicIdPartition(PARTITION.topic_id, 1, "topic")
    finished = finish(state, segment(1, 0, 100))
    state.apply(in_partition(segment(2, 0, 100), other))
    for each in (*before, FINISHED):
        assert not state.is_deleted(PARTITION)
        assert state.apply(RemotePartitionDeleteMetadata(PARTITION, each)) == Applied()
    assert state.is_deleted(PARTITION)
    assert not state.is_deleted(other)
    assert state.segment(PARTITION, finished.segment_id) is None
    assert state.highest_offset(PARTITION, leader_epoch=0) is None
    assert state.partition_delete_state(PARTITION) is None
    assert known_partitions(state) == [other]
    assert state.topic_name(PARTITION.topic_id) == "topic"
    assert state.knows_topic("topic")


def test_finished_delete_of_an_unknown_partition_makes_only_its_name_known(state: MetadataState) -> None:
    assert state.apply(RemotePartitionDeleteMetadata(PARTITION, FINISHED)) == Applied()
    assert known_partitions(state) == []
    assert state.knows_topic("topic")


def test_event_after_a_finished_partition_delete_meets_an_empty_partition(state: MetadataState) -> None:
    subject = segment(1, 0, 100)
    finish(state, subject)
    state.apply(RemotePartitionDeleteMetadata(PARTITION, FINISHED))
    assert state.apply(subject.step(SegmentState.DELETE_STARTED, event_timestamp_ms=8)) == UnknownSegment()
    again = finish(state, segment(2, 0, 50))
    assert found_value(state.find(PARTITION, leader_epoch=0, offset=5)) == again
    assert state.log_size(PARTITION, leader_epoch=0) == 1002
    assert state.is_deleted(PARTITION)
    assert known_partitions(state) == [PARTITION]


def test_log_size_counts_the_segments_of_the_epoch_in_every_state(state: MetadataState) -> None:
    first = finish(state, segment(1, 0, 100, {0: 0, 1: 50}))
    state.apply(segment(2, 101, 200, {1: 101}))
    assert state.log_size(PARTITION, leader_epoch=0) == 1001
    assert state.log_size(PARTITION, leader_epoch=1) == 2003
    state.apply(first.step(SegmentState.DELETE_STARTED, event_timestamp_ms=8))
    assert state.log_size(PARTITION, leader_epoch=1) == 2003
    state.apply(first.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=8))
    assert state.log_size(PARTITION, leader_epoch=0) == 0
    assert state.log_size(PARTITION, leader_epoch=1) == 1002


def test_log_size_follows_a_segment_that_is_announced_anew(state: MetadataState) -> None:
    state.apply(segment(1, 0, 100, {0: 0, 1: 50}))
    state.apply(replace(segment(1, 0, 100, {1: 0}), segment_size_bytes=7))
    assert state.log_size(PARTITION, leader_epoch=0) == 7
    assert state.log_size(PARTITION, leader_epoch=1) == 7


def test_search_for_a_transaction_index_passes_over_segments_that_have_none(state: MetadataState) -> None:
    without = [replace(segment(number, 10 * number, 10 * number + 9), txn_index_empty=True) for number in range(3)]
    for metadata in without:
        finish(state, metadata)
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=5) is None
    has_one = finish(state, segment(3, 30, 39))
    finish(state, segment(4, 40, 49))
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=5) == has_one
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=35) == has_one
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=1, offset=5) is None


def test_search_for_a_transaction_index_stays_in_its_epoch_and_stops_at_a_gap(state: MetadataState) -> None:
    finish(state, replace(segment(1, 0, 9, {0: 0, 1: 5}), txn_index_empty=True))
    next_epoch = finish(state, segment(2, 10, 19, {1: 10}))
    behind_a_gap = finish(state, segment(3, 25, 29, {0: 25}))
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=2) is None
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=1, offset=6) == next_epoch
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=25) == behind_a_gap


def test_search_for_a_transaction_index_ends_where_epochs_lead_in_a_circle(state: MetadataState) -> None:
    finish(state, replace(segment(1, 0, 5, {0: 0, 1: 13}), txn_index_empty=True))  # epoch 0 goes on behind the end
    assert state.find_next_with_txn_index(PARTITION, leader_epoch=0, offset=12) is None


BY_NAME = [
    TopicIdPartition(TopicId(bytes((first,)) * 16), number, name)
    for name, first, number in [("a", 9, 0), ("a", 9, 2), ("b", 1, 0), ("b", 1, 10), ("b", 7, 3), ("bb", 0, 0)]
]


def test_partitions_are_listed_by_name_id_and_number(state: MetadataState) -> None:
    for partition in reversed(BY_NAME):
        state.apply(in_partition(segment(1, 0, 100), partition))
    listed = known_partitions(state)
    assert listed == BY_NAME
    assert [partition.topic for partition in listed] == ["a", "a", "b", "b", "b", "bb"]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
@pytest.mark.parametrize("topic", [None, "a", "b", "bb", "c"])
def test_pages_of_partitions_join_without_gap_or_repetition(
    state: MetadataState, topic: str | None, limit: int
) -> None:
    for partition in BY_NAME:
        state.apply(in_partition(segment(1, 0, 100), partition))
    collected: list[TopicIdPartition] = []
    after = None
    while page := state.partitions_after(topic=topic, after=after, limit=limit):
        assert len(page) <= limit
        collected += [partition for partition, _ in page]
        after = (collected[-1].topic, collected[-1].topic_id, collected[-1].partition)
    assert collected == [partition for partition in BY_NAME if topic in (None, partition.topic)]


def test_page_of_partitions_continues_after_one_that_is_gone(state: MetadataState) -> None:
    for partition in BY_NAME:
        state.apply(in_partition(segment(1, 0, 100), partition))
    gone = BY_NAME[2]
    state.apply(RemotePartitionDeleteMetadata(gone, FINISHED))
    page = state.partitions_after(topic=None, after=(gone.topic, gone.topic_id, gone.partition), limit=1)
    assert [partition for partition, _ in page] == [BY_NAME[3]]


def test_page_of_one_name_ignores_a_key_before_it(state: MetadataState) -> None:
    for partition in BY_NAME:
        state.apply(in_partition(segment(1, 0, 100), partition))
    page = state.partitions_after(topic="b", after=("a", TopicId(bytes(16)), 0), limit=10)
    assert [partition for partition, _ in page] == BY_NAME[2:5]


def test_figures_come_with_each_partition(state: MetadataState) -> None:
    finish(state, segment(1, 0, 100))
    state.apply(segment(2, 101, 200))
    assert state.partitions_after(topic="topic", after=None, limit=10) == [
        (PARTITION, PartitionFigures(2, 1, 1001, 0, 100))
    ]
