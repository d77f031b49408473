"""A state that comes back from a snapshot, taken at any step, answers for ever as the one that it was taken of."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.cache_scenarios import PARTITION
from unit.metadata.snapshot_scenarios import PARTITIONS, encoded, small_partition, small_state

from support.metadata_answers import answers
from support.metadata_histories import partition_deletes, segment_events
from tiergate_client.ids import TopicId
from tiergate_client.values import SegmentState, TopicIdPartition
from tiergate_server.metadata.event_codec import MetadataEvent
from tiergate_server.metadata.snapshot import capture, capture_in_steps
from tiergate_server.metadata.snapshot_codec import decode
from tiergate_server.metadata.state import MetadataState

# One of them under two names, and one of another incarnation of its topic.
HISTORY_PARTITIONS = (
    PARTITION,
    TopicIdPartition(PARTITION.topic_id, 1, "topic"),
    TopicIdPartition(PARTITION.topic_id, 1, "renamed"),
    TopicIdPartition(TopicId(b"U" * 16), 0, "topic"),
)
partitions = st.sampled_from((PARTITION, *HISTORY_PARTITIONS))
segment_history = segment_events(partitions)
events = st.one_of(segment_history, segment_history, segment_history, partition_deletes(partitions))
histories = st.lists(events, min_size=1, max_size=60) | st.lists(events, min_size=40, max_size=60)


@settings(deadline=None)
@given(history=histories, data=st.data())
def test_restored_state_answers_like_the_full_replay_whenever_the_snapshot_was_taken(
    history: list[MetadataEvent], data: st.DataObject
) -> None:
    taken_after = data.draw(st.integers(0, len(history)))
    replayed = MetadataState()
    for event in history[:taken_after]:
        replayed.apply(event)
    before = answers(replayed, HISTORY_PARTITIONS)
    snapshot = capture(3, applied=taken_after - 1, leader_epoch=0, state=replayed)
    later_verdicts = [replayed.apply(event) for event in history[taken_after:]]

    assert answers(snapshot.state, HISTORY_PARTITIONS) == before

    file = encoded(snapshot)
    restored = decode(file).partitions[3].restore()
    assert answers(restored, HISTORY_PARTITIONS) == before
    assert encoded(capture(3, applied=taken_after - 1, leader_epoch=0, state=restored)) == file
    assert [restored.apply(event) for event in history[taken_after:]] == later_verdicts
    assert answers(restored, HISTORY_PARTITIONS) == answers(replayed, HISTORY_PARTITIONS)


def test_snapshot_keeps_what_history_decided_and_no_order_of_segments_could() -> None:
    state = small_state()
    assert state.find(PARTITION, leader_epoch=0, offset=4) is None  # though the longer segment has it
    restored = decode(encoded(small_partition())).partitions[3].restore()
    assert answers(restored, PARTITIONS) == answers(state, PARTITIONS)


def test_each_restore_is_a_state_of_its_own() -> None:
    snapshot = small_partition()
    before = answers(snapshot.state, PARTITIONS)
    first = snapshot.restore()
    found, _ = first.segments_after(PARTITION, leader_epoch=1, after=None, limit=10)
    first.apply(found.step(SegmentState.DELETE_STARTED, event_timestamp_ms=9))
    first.apply(found.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=9))
    assert answers(first, PARTITIONS) != before
    assert answers(snapshot.restore(), PARTITIONS) == answers(snapshot.state, PARTITIONS) == before


def test_capture_in_steps_pauses_once_for_each_user_partition() -> None:
    steps = capture_in_steps(3, applied=41, leader_epoch=6, state=small_state())
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            snapshot = done.value
            break
        pauses += 1
    assert pauses == 2
    assert encoded(snapshot) == encoded(small_partition())
