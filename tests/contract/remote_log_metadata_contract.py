"""What every RemoteLogMetadata does, whoever implements it. Subclass it with a `metadata` fixture."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import pytest

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import (
    InvalidField,
    InvalidTransition,
    LimitExceeded,
    SegmentConflict,
    SegmentNotFound,
    TiergateError,
    TopicNotFound,
)
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    SegmentState,
    TopicIdPartition,
)

MARKED = PartitionDeleteState.DELETE_PARTITION_MARKED
STARTED = PartitionDeleteState.DELETE_PARTITION_STARTED
FINISHED = PartitionDeleteState.DELETE_PARTITION_FINISHED
COPY_STARTED, COPY_FINISHED = SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED
DELETE_STARTED, DELETE_FINISHED = SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED

# How a segment gets into each state; None is a segment that was never added.
PATHS: dict[SegmentState | None, list[SegmentState]] = {
    None: [],
    COPY_STARTED: [COPY_STARTED],
    COPY_FINISHED: [COPY_STARTED, COPY_FINISHED],
    DELETE_STARTED: [COPY_STARTED, COPY_FINISHED, DELETE_STARTED],
    DELETE_FINISHED: [COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED],
}
# From each state, what happens on the way to another; DELETE_FINISHED leaves nothing behind, like absence.
UPDATES: dict[tuple[SegmentState | None, SegmentState], type[TiergateError] | None] = {
    (None, COPY_FINISHED): SegmentNotFound,
    (None, DELETE_STARTED): SegmentNotFound,
    (None, DELETE_FINISHED): None,
    (COPY_STARTED, COPY_FINISHED): None,
    (COPY_STARTED, DELETE_STARTED): None,
    (COPY_STARTED, DELETE_FINISHED): InvalidTransition,
    (COPY_FINISHED, COPY_FINISHED): None,
    (COPY_FINISHED, DELETE_STARTED): None,
    (COPY_FINISHED, DELETE_FINISHED): InvalidTransition,
    (DELETE_STARTED, COPY_FINISHED): InvalidTransition,
    (DELETE_STARTED, DELETE_STARTED): None,
    (DELETE_STARTED, DELETE_FINISHED): None,
    (DELETE_FINISHED, COPY_FINISHED): SegmentNotFound,
    (DELETE_FINISHED, DELETE_STARTED): SegmentNotFound,
    (DELETE_FINISHED, DELETE_FINISHED): None,
}
ADDS: dict[SegmentState | None, type[TiergateError] | None] = {
    None: None,
    COPY_STARTED: None,
    COPY_FINISHED: InvalidTransition,
    DELETE_STARTED: InvalidTransition,
    DELETE_FINISHED: None,
}


def new_partition(topic: str = "orders") -> TopicIdPartition:
    return TopicIdPartition(TopicId.random(), 0, topic)


def new_segment(
    partition: TopicIdPartition, start: int, end: int, epochs: dict[int, int] | None = None
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=SegmentId.random(),
        start_offset=start,
        end_offset=end,
        segment_leader_epochs=LeaderEpochs.of(epochs or {0: start}),
        segment_size_bytes=1000 + end - start,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_001_000,
    )


def lead(metadata: RemoteLogMetadata, segment: RemoteLogSegmentMetadata, state: SegmentState | None) -> None:
    for step in PATHS[state]:
        if step is COPY_STARTED:
            metadata.add_segment(segment)
        else:
            metadata.update_segment(segment.step(step, event_timestamp_ms=2))


def attempt(change: Callable[[], None], refusal: type[TiergateError] | None) -> None:
    if refusal is None:
        change()
    else:
        with pytest.raises(refusal):
            change()


class RemoteLogMetadataContract:
    @pytest.fixture
    def partition(self) -> TopicIdPartition:
        return new_partition()

    @pytest.mark.parametrize(("current", "target"), UPDATES, ids=str)
    def test_update_answers_as_the_state_table_says(
        self,
        metadata: RemoteLogMetadata,
        partition: TopicIdPartition,
        current: SegmentState | None,
        target: SegmentState,
    ) -> None:
        segment = new_segment(partition, 0, 9)
        lead(metadata, segment, current)
        attempt(lambda: metadata.update_segment(segment.step(target, event_timestamp_ms=3)), UPDATES[current, target])

    @pytest.mark.parametrize("current", ADDS, ids=str)
    def test_add_answers_as_the_state_table_says(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition, current: SegmentState | None
    ) -> None:
        segment = new_segment(partition, 0, 9)
        lead(metadata, segment, current)
        attempt(lambda: metadata.add_segment(segment), ADDS[current])

    def test_illegal_step_names_both_states(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        with pytest.raises(InvalidTransition) as refusal:
            metadata.update_segment(segment.step(DELETE_FINISHED, event_timestamp_ms=2))
        assert refusal.value.details == {"from": "COPY_STARTED", "to": "DELETE_FINISHED"}

    def test_add_in_another_state_is_refused(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        with pytest.raises(InvalidField) as refusal:
            metadata.add_segment(replace(new_segment(partition, 0, 9), state=COPY_FINISHED))
        assert refusal.value.details["field"] == "segment.state"

    def test_update_to_copy_started_is_refused(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        with pytest.raises(InvalidField) as refusal:
            metadata.update_segment(segment.step(COPY_STARTED, event_timestamp_ms=2))
        assert refusal.value.details["field"] == "state"

    def test_add_again_by_another_broker_is_fine(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        metadata.add_segment(replace(segment, broker_id=7, event_timestamp_ms=9))
        assert metadata.get_segment(segment.segment_id) == segment

    def test_add_again_with_other_content_is_a_conflict(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        with pytest.raises(SegmentConflict):
            metadata.add_segment(replace(segment, end_offset=10))
        assert metadata.get_segment(segment.segment_id) == segment

    def test_topic_id_under_another_name_is_refused(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        metadata.add_segment(new_segment(partition, 0, 9))
        with pytest.raises(InvalidField) as refusal:
            metadata.add_segment(new_segment(replace(partition, topic="payments"), 10, 19))
        assert refusal.value.details["field"] == "partition.topic"
        with pytest.raises(InvalidField):
            metadata.update_segment(
                RemoteLogSegmentMetadataUpdate(replace(partition, topic="payments"), SegmentId.random(), COPY_FINISHED)
            )

    def test_update_replaces_custom_metadata_also_by_none(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        for custom in (b"first", b"", None, b"x" * 128):
            update = RemoteLogSegmentMetadataUpdate(partition, segment.segment_id, COPY_FINISHED, custom)
            metadata.update_segment(update)
            assert metadata.get_segment(segment.segment_id).custom_metadata == custom

    def test_custom_metadata_above_the_limit_is_refused(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        with pytest.raises(LimitExceeded) as refusal:
            metadata.add_segment(replace(segment, custom_metadata=b"x" * 129))
        assert refusal.value.details == {"limit": "custom_metadata_bytes", "value": "128"}
        metadata.add_segment(segment)
        with pytest.raises(LimitExceeded):
            metadata.update_segment(segment.step(COPY_FINISHED, event_timestamp_ms=1, custom_metadata=b"x" * 129))

    def test_repeated_finish_does_not_bring_back_a_replaced_segment(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        older, newer = new_segment(partition, 0, 9), new_segment(partition, 0, 19)
        lead(metadata, older, COPY_FINISHED)
        lead(metadata, newer, COPY_FINISHED)
        metadata.update_segment(older.step(COPY_FINISHED, event_timestamp_ms=4))
        found = metadata.find_segment(partition, leader_epoch=0, offset=15)
        assert found is not None
        assert found.segment_id == newer.segment_id

    def test_get_segment_keeps_every_field(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        segment = replace(
            new_segment(partition, 100, 199, {4: 100, 6: 150}),
            custom_metadata=b"\x00\xff",
            txn_index_empty=True,
            max_timestamp_ms=-1,
        )
        metadata.add_segment(segment)
        found = metadata.get_segment(segment.segment_id)
        assert found == segment
        assert found.partition.topic == "orders"
        assert metadata.get_segment(segment.segment_id, partition=partition) == segment

    def test_get_segment_of_an_unknown_id_is_not_found(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        for where in (None, partition):
            with pytest.raises(SegmentNotFound):
                metadata.get_segment(SegmentId.random(), partition=where)

    def test_reference_scenario_is_answered_like_kafka(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segments = [
            new_segment(partition, 0, 100, {0: 0, 1: 20, 2: 80}),
            new_segment(partition, 101, 200, {2: 101}),
            new_segment(partition, 201, 300, {2: 201, 3: 240}),
            new_segment(partition, 250, 400, {3: 250, 4: 370}),
        ]
        for segment in segments:
            metadata.add_segment(segment)
            assert metadata.find_segment(partition, leader_epoch=4, offset=segment.start_offset) is None
        for segment in segments:
            metadata.update_segment(segment.step(COPY_FINISHED, event_timestamp_ms=3))
        lookups: dict[tuple[int, int], int | None] = {
            (1, 40): 0, (2, 110): 1, (3, 240): 2, (3, 250): 3, (4, 375): 3, (1, 110): None,
            (4, 401): None, (5, 301): None, (1, 85): None, (0, 20): None,
        }  # fmt: skip
        for (epoch, offset), expected in lookups.items():
            found = metadata.find_segment(partition, leader_epoch=epoch, offset=offset)
            assert (found and found.segment_id) == (None if expected is None else segments[expected].segment_id), (
                epoch,
                offset,
            )
        lead_out = segments[0]
        for deleted in (False, True):
            if deleted:
                metadata.update_segment(lead_out.step(DELETE_STARTED, event_timestamp_ms=4))
                metadata.update_segment(lead_out.step(DELETE_FINISHED, event_timestamp_ms=5))
            highest = [metadata.highest_offset_for_epoch(partition, leader_epoch=epoch) for epoch in range(6)]
            assert highest == [19, 79, 239, 369, 400, None]

    def test_listing_is_ordered_and_complete_over_pages(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segments = [new_segment(partition, start, start + 9) for start in (50, 0, 30, 30, 10, 20, 40, 30)]
        for segment in segments:
            metadata.add_segment(segment)
        lead(metadata, new_segment(partition, 5, 6), DELETE_FINISHED)
        expected = sorted(segments, key=lambda segment: (segment.start_offset, segment.segment_id))
        assert list(metadata.list_segments(partition)) == expected
        assert list(metadata.list_segments(partition, leader_epoch=0)) == expected
        assert list(metadata.list_segments(partition, leader_epoch=1)) == []

    def test_partition_that_the_log_never_mentioned_reads_as_empty(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        assert list(metadata.list_segments(partition)) == []
        assert metadata.find_segment(partition, leader_epoch=0, offset=0) is None
        assert metadata.highest_offset_for_epoch(partition, leader_epoch=0) is None

    def test_list_partitions_sums_up_finished_segments(self, metadata: RemoteLogMetadata) -> None:
        topic = f"sums-{SegmentId.random()}"
        topic_id = TopicId.random()
        partitions = [TopicIdPartition(topic_id, number, topic) for number in range(5)]
        for partition in partitions:
            lead(metadata, new_segment(partition, 10, 19), COPY_FINISHED)
            lead(metadata, new_segment(partition, 20, 29), COPY_FINISHED)
            metadata.add_segment(new_segment(partition, 30, 39))
        summaries = list(metadata.list_partitions(topic=topic))
        assert [summary.partition for summary in summaries] == partitions
        first = summaries[0]
        assert (first.segment_count, first.finished_segment_count, first.finished_size_bytes) == (3, 2, 2018)
        assert (first.start_offset, first.end_offset, first.ready) == (10, 29, True)

    def test_list_partitions_of_an_unknown_topic_is_not_found(self, metadata: RemoteLogMetadata) -> None:
        with pytest.raises(TopicNotFound):
            list(metadata.list_partitions(topic="never-heard-of"))

    def test_partition_delete_goes_step_by_step_and_drops_everything(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        lead(metadata, segment, COPY_FINISHED)
        for illegal in (STARTED, FINISHED):
            with pytest.raises(InvalidTransition):
                metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, illegal))
        metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, MARKED))
        metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, MARKED))
        with pytest.raises(InvalidTransition) as refusal:
            metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, FINISHED))
        assert refusal.value.details == {"from": MARKED.name, "to": FINISHED.name}
        metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, STARTED))
        assert metadata.find_segment(partition, leader_epoch=0, offset=5) is not None
        metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, FINISHED))
        metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, FINISHED))
        assert metadata.find_segment(partition, leader_epoch=0, offset=5) is None
        assert metadata.highest_offset_for_epoch(partition, leader_epoch=0) is None
        assert list(metadata.list_segments(partition)) == []
        refused: tuple[Callable[[], None], ...] = (
            lambda: metadata.add_segment(new_segment(partition, 10, 19)),
            lambda: metadata.update_segment(segment.step(DELETE_STARTED, event_timestamp_ms=1)),
            lambda: metadata.put_partition_delete(RemotePartitionDeleteMetadata(partition, MARKED)),
        )
        for change in refused:
            with pytest.raises(InvalidTransition):
                change()

    def test_find_segments_answers_in_order(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        elsewhere = new_partition()
        segments = [new_segment(partition, start, start + 9) for start in (0, 10, 20)]
        segments.append(new_segment(elsewhere, 0, 9))
        for segment in segments:
            lead(metadata, segment, COPY_FINISHED)
        answers = metadata.find_segments(
            [SegmentQuestion(partition, 0, offset) for offset in (25, 5, 99, 15)]
            + [SegmentQuestion(elsewhere, 0, 3), SegmentQuestion(elsewhere, 7, 3)]
        )
        expected = [segments[2], segments[0], None, segments[1], segments[3], None]
        found = [answer.segment_id if isinstance(answer, RemoteLogSegmentMetadata) else answer for answer in answers]
        assert found == [segment and segment.segment_id for segment in expected]

    def test_next_segment_with_transaction_index_passes_over_empty_ones(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segments = [
            replace(new_segment(partition, start, start + 9), txn_index_empty=empty)
            for start, empty in ((0, True), (10, True), (20, False), (30, True))
        ]
        for segment in segments:
            lead(metadata, segment, COPY_FINISHED)

        def ask(offset: int) -> SegmentId | None:
            found = metadata.find_next_segment_with_transaction_index(partition, leader_epoch=0, offset=offset)
            return None if found is None else found.segment_id

        third = segments[2].segment_id
        assert [ask(offset) for offset in (3, 15, 25, 35, 99)] == [third, third, third, None, None]

    def test_log_size_counts_every_state_in_every_epoch(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        first, second = new_segment(partition, 0, 99, {0: 0, 1: 50}), new_segment(partition, 100, 199, {1: 100})
        lead(metadata, first, COPY_FINISHED)
        metadata.add_segment(second)
        sizes = [metadata.log_size(partition, leader_epoch=epoch) for epoch in (0, 1, 2)]
        assert sizes == [first.segment_size_bytes, first.segment_size_bytes + second.segment_size_bytes, 0]

    def test_watch_tells_every_change_in_order_and_again_after_a_token(
        self, metadata: RemoteLogMetadata, partition: TopicIdPartition
    ) -> None:
        segment = new_segment(partition, 0, 9)
        changes = metadata.watch(partition=partition)
        begin = next(changes)
        assert begin.event is None
        finish = segment.step(COPY_FINISHED, event_timestamp_ms=7, custom_metadata=b"c")
        marked = RemotePartitionDeleteMetadata(partition, MARKED, event_timestamp_ms=8)
        metadata.add_segment(segment)
        metadata.update_segment(finish)
        metadata.put_partition_delete(marked)
        told = [next(change for change in changes if change.event is not None) for _ in range(3)]
        assert [change.event for change in told] == [segment, finish, marked]
        again = metadata.watch(partition=partition, after=told[0].token)
        assert [change.event for change in islice((change for change in again if change.event), 2)] == [finish, marked]

    def test_racing_writers_agree_on_one_winner(self, metadata: RemoteLogMetadata, partition: TopicIdPartition) -> None:
        """Of many that finish or delete the same segment, each is told what the log decided."""
        segment = new_segment(partition, 0, 9)
        metadata.add_segment(segment)
        verdicts: list[tuple[SegmentState, bool]] = []

        def race(state: SegmentState) -> None:
            try:
                metadata.update_segment(segment.step(state, event_timestamp_ms=3))
                verdicts.append((state, True))
            except InvalidTransition:
                verdicts.append((state, False))

        threads = [threading.Thread(target=race, args=(state,)) for state in (COPY_FINISHED, DELETE_STARTED) * 8]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(verdicts) == 16
        assert all(accepted for state, accepted in verdicts if state is DELETE_STARTED)
        assert metadata.get_segment(segment.segment_id).state is DELETE_STARTED
