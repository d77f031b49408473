"""Random histories of one partition: after every event the cache answers everything as the naive model does."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.cache_scenarios import PARTITION

from support.metadata_answers import found_value
from support.metadata_histories import EPOCHS, OFFSETS, SegmentEvent, segment_events
from support.metadata_model import PartitionModel
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.metadata.packed_partition_cache import PackedPartitionCache
from tiergate_server.metadata.verdict import Applied

EVENTS = segment_events(st.just(PARTITION))
HISTORIES = st.lists(EVENTS, min_size=1, max_size=60) | st.lists(EVENTS, min_size=40, max_size=60)
LEAST_STEPS = {"nightly": 100_000, "ci": 1_000, "default": 1_000}
"""By the profile of hypothesis: `make nightly` chooses the first, `make test` leaves the choice to hypothesis.

5,000 and 100 histories, which have about 30 events each.
"""


def assert_same_answers(cache: PackedPartitionCache, model: PartitionModel) -> None:
    for epoch in EPOCHS:
        assert cache.highest_offset(leader_epoch=epoch) == model.highest(epoch)
        assert cache.log_size(leader_epoch=epoch) == model.size(epoch)
        for offset in range(-2, OFFSETS[-1] + 3):
            assert found_value(cache.find(leader_epoch=epoch, offset=offset)) == model.lookup(epoch, offset)
            with_index = cache.find_next_with_txn_index(leader_epoch=epoch, offset=offset)
            assert with_index == model.next_with_txn_index(epoch, offset)
    for listed_epoch in (None, *EPOCHS):
        expected = model.listed(listed_epoch)
        assert cache.segments_after(leader_epoch=listed_epoch, after=None, limit=100) == expected
        for position, metadata in enumerate(expected):
            key = (metadata.start_offset, metadata.segment_id)
            page = cache.segments_after(leader_epoch=listed_epoch, after=key, limit=2)
            assert page == expected[position + 1 : position + 3]
    assert cache.figures() == model.figures()


def compare_after_every_event(history: Sequence[SegmentEvent]) -> None:
    cache = PackedPartitionCache(PARTITION)
    model = PartitionModel()
    for event in history:
        if isinstance(event, RemoteLogSegmentMetadata):
            verdict, was_applied = cache.apply_add(event), model.add(event)
        else:
            verdict, was_applied = cache.apply_update(event), model.update(event)
        assert isinstance(verdict, Applied) is was_applied
        assert cache.segment(event.segment_id) == model.by_id.get(event.segment_id)
        assert_same_answers(cache, model)


def test_every_answer_is_that_of_the_model_after_every_event() -> None:
    """Every query after each of so many events: the histories differ in length, so the events are what is counted."""
    steps = 0

    @settings(deadline=None)
    @given(history=HISTORIES)
    def compare(history: list[SegmentEvent]) -> None:
        nonlocal steps
        compare_after_every_event(history)
        steps += len(history)

    compare()
    assert steps >= LEAST_STEPS[settings.get_current_profile_name()]
