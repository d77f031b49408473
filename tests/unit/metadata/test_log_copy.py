"""Copying a log: the same answers afterwards, whatever the partition counts, and wherever it was cut off."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metadata_answers import answers
from support.metadata_histories import partition_deletes, segment_events
from support.segments import make_metadata
from tiergate_client.errors import MetadataLogUnavailable
from tiergate_client.ids import TopicId
from tiergate_client.values import SegmentState, TopicIdPartition
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.metadata.event_codec import MetadataEvent, decode_event, encode_event
from tiergate_server.metadata.event_log import MetadataEventLog
from tiergate_server.metadata.log_copy import CopyPlan, CopyRefused, copy_events, plan_copy
from tiergate_server.metadata.log_scan import scan, spans_of
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.metadata.state import MetadataState

PARTITIONS = [TopicIdPartition(TopicId(bytes([number]) * 16), number % 3, f"topic-{number}") for number in range(7)]
_partitions = st.sampled_from(PARTITIONS)
histories = st.lists(segment_events(_partitions) | partition_deletes(_partitions), max_size=60)

SEGMENT = make_metadata()
FINISH = SEGMENT.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1)


def home(event: MetadataEvent, log: MetadataEventLog) -> int:
    return metadata_partition(event.partition, partition_count=log.partition_count)


def log_of(events: Sequence[MetadataEvent], *, partition_count: int = 4) -> MemoryEventLog:
    log = MemoryEventLog(partition_count=partition_count)
    for event in events:
        log.publish(home(event, log), encode_event(event))
    return log


def copied(source: MetadataEventLog, target: MetadataEventLog) -> CopyPlan:
    plan = plan_copy(source, target)
    copy_events(plan, source, target)
    return plan


def values(log: MetadataEventLog) -> list[bytes]:
    return [record.value for record in scan(log, spans_of(log))]


def all_answers(log: MetadataEventLog) -> list[object]:
    """What each user partition's own metadata partition knows of it, as a replica answers."""
    states = [MetadataState() for _ in range(log.partition_count)]
    for record in scan(log, spans_of(log)):
        states[record.partition].apply(decode_event(record.value))
    homes = (metadata_partition(partition, partition_count=log.partition_count) for partition in PARTITIONS)
    return [
        {
            question: answer
            for question, answer in answers(states[number], [partition]).items()
            if str(partition) in question or partition.topic in question
        }
        for partition, number in zip(PARTITIONS, homes, strict=True)
    ]


class FailingLog(MemoryEventLog):
    """Takes so many records and then no more."""

    room: int

    def publish(self, partition: int, value: bytes) -> Future[int]:
        if self.room == 0:
            failed: Future[int] = Future()
            failed.set_exception(MetadataLogUnavailable("the disk is full"))
            return failed
        self.room -= 1
        return super().publish(partition, value)


@given(history=histories, counts=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_copy_answers_every_question_alike(history: list[MetadataEvent], counts: tuple[int, int]) -> None:
    source, target = (
        log_of(events, partition_count=count) for events, count in zip((history, []), counts, strict=True)
    )
    plan = copied(source, target)
    assert plan.event_count == len(history)
    assert all_answers(target) == all_answers(source)


@given(history=histories, counts=st.tuples(st.integers(1, 9), st.integers(1, 9)), cuts=st.lists(st.integers(0, 20)))
def test_copy_goes_on_wherever_it_was_cut_off(
    history: list[MetadataEvent], counts: tuple[int, int], cuts: list[int]
) -> None:
    source = log_of(history, partition_count=counts[0])
    target = FailingLog(partition_count=counts[1])
    present = 0
    for room in cuts:
        target.room = room
        plan = plan_copy(source, target)
        assert plan.present_count == present
        present = min(len(history), present + room)
        is_cut_off = plan.event_count - plan.present_count > room
        with pytest.raises(MetadataLogUnavailable) if is_cut_off else nullcontext():
            copy_events(plan, source, target)
    target.room = 1000
    copied(source, target)
    whole = log_of([], partition_count=counts[1])
    copied(source, whole)
    assert values(target) == values(whole)


def test_copy_of_a_complete_copy_adds_nothing() -> None:
    source, target = log_of([SEGMENT, FINISH]), log_of([], partition_count=3)
    copied(source, target)
    plan = copied(source, target)
    assert (plan.event_count, plan.present_count) == (2, 2)
    assert values(target) == values(source)


def test_copy_goes_on_after_the_source_has_grown() -> None:
    source, target = log_of([SEGMENT]), log_of([], partition_count=3)
    copied(source, target)
    later: list[MetadataEvent] = [*(make_metadata(topic=f"topic-{number}") for number in range(20)), FINISH]
    for event in later:
        source.publish(home(event, source), encode_event(event))
    assert copied(source, target).present_count == 1
    assert sorted(values(target)) == sorted(values(source))


@pytest.mark.parametrize(
    "present",
    [[FINISH], [SEGMENT, SEGMENT], [SEGMENT, FINISH, FINISH], [make_metadata()], [SEGMENT, make_metadata()]],
)
def test_copy_is_refused_when_the_target_holds_anything_else(present: list[MetadataEvent]) -> None:
    target = log_of(present, partition_count=3)
    before = values(target)
    with pytest.raises(CopyRefused, match="not the beginning"):
        plan_copy(log_of([SEGMENT, FINISH]), target)
    assert values(target) == before


@pytest.mark.parametrize("value", [b"", b"\x01\x09\x00", b"nonsense"])
def test_copy_is_refused_when_the_target_holds_what_is_no_event(value: bytes) -> None:
    target = log_of([])
    target.publish(0, value)
    with pytest.raises(CopyRefused, match="no copy wrote"):
        plan_copy(log_of([SEGMENT]), target)


def test_copy_is_refused_when_the_target_has_an_event_in_another_partition() -> None:
    target = log_of([], partition_count=3)
    target.publish((home(SEGMENT, target) + 1) % 3, encode_event(SEGMENT))
    with pytest.raises(CopyRefused, match="no copy put there"):
        plan_copy(log_of([SEGMENT]), target)


def test_copy_leaves_unknown_events_out_and_counts_them() -> None:
    source, target = log_of([SEGMENT]), log_of([], partition_count=3)
    for value in (b"", b"\x01\x09\x00"):
        source.publish(1, value)
    plan = copied(source, target)
    assert (plan.event_count, plan.unknown_count) == (1, 2)
    assert values(target) == [encode_event(SEGMENT)]


def test_copy_is_refused_before_anything_is_written_when_an_event_is_corrupt() -> None:
    source, target = log_of([SEGMENT]), log_of([], partition_count=3)
    source.publish(1, b"nonsense")
    offset = source.end_offsets([1])[1] - 1
    with pytest.raises(CopyRefused, match=f"offset {offset} of partition 1 .* add 1:{offset} to metadata.skip"):
        plan_copy(source, target)
    plan = plan_copy(source, target, skip=[(1, offset)])
    copy_events(plan, source, target)
    assert plan.unknown_count == 1
    assert values(target) == [encode_event(SEGMENT)]


def test_copy_is_refused_when_an_event_of_the_source_is_out_of_place() -> None:
    source = log_of([])
    source.publish((home(SEGMENT, source) + 1) % 4, encode_event(SEGMENT))
    with pytest.raises(CopyRefused, match="belong into another"):
        plan_copy(source, None)


def test_copy_onto_itself_is_refused() -> None:
    log = log_of([SEGMENT])
    with pytest.raises(CopyRefused, match="same log"):
        plan_copy(log, log)


def test_copy_says_so_when_somebody_else_wrote_to_the_target() -> None:
    source, target = log_of([SEGMENT]), log_of([], partition_count=3)
    plan = plan_copy(source, target)
    intruder = make_metadata(topic="intruder")
    target.publish(home(intruder, target), encode_event(intruder))
    with pytest.raises(CopyRefused, match="somebody else"):
        copy_events(plan, source, target)


def test_scan_gives_partitions_and_offsets_in_order_up_to_the_ends_of_the_beginning() -> None:
    events = [
        make_metadata(topic=f"topic-{number % 9}", topic_id=TopicId(bytes([number % 9]) * 16)) for number in range(3000)
    ]
    log = log_of(events)
    spans = spans_of(log)
    for event in events[:100]:
        log.publish(home(event, log), encode_event(event))
    places = [(record.partition, record.offset) for record in scan(log, spans)]
    assert len(places) == 3000
    assert all(earlier < later for earlier, later in pairwise(places))
