"""The first record from a time on is found as Kafka's offsetsForTimes finds it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicated_logs import PARTITION, ReplicatedLog, random_log, sources
from support.tier_in_memory import TierInMemory
from support.tier_model import TierModel
from tiergate_client.errors import CorruptBatch
from tiergate_client.interfaces import SegmentStream
from tiergate_client.records.history import load_history
from tiergate_client.records.time_lookup import TimestampedOffset, find_offset_by_time
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState


def found(tier: TierInMemory, timestamp_ms: int, *, start_offset: int = 0) -> TimestampedOffset | None:
    history = load_history(tier.metadata, tier.storage, PARTITION)
    return find_offset_by_time(history, tier.storage, timestamp_ms, start_offset=start_offset)


def minutely_log(batches: int) -> ReplicatedLog:
    log = ReplicatedLog(random.Random(6))
    for number in range(batches):
        log.append("commit", producer_id=number)
        log.now_ms += 60_000
    return log


def test_empty_history_has_no_record_of_any_time() -> None:
    assert found(TierInMemory([]), 0) is None


def test_segments_that_are_older_are_not_asked() -> None:
    log = minutely_log(9)
    for first in (0, 3, 6):
        log.copy(first, first + 3)
    tier = TierInMemory(log.copied)
    (offset, timestamp), *_ = log.batches[4].rows
    assert found(tier, timestamp - 1) == TimestampedOffset(offset, timestamp, 0)
    assert tier.asked_for(SegmentFile.LOG) == {log.copied[1].metadata.segment_id}
    assert found(tier, log.now_ms) is None


def test_record_of_exactly_the_time_is_found_and_control_records_count() -> None:
    log = minutely_log(3)
    log.copy(0, 3)
    (offset, timestamp), *_ = log.batches[1].rows
    assert found(TierInMemory(log.copied), timestamp) == TimestampedOffset(offset, timestamp, 0)


def test_leader_epoch_is_that_of_the_batch() -> None:
    log = minutely_log(1)
    log.change_leader()
    log.append("commit", producer_id=1)
    log.copy(0, 2)
    answer = found(TierInMemory(log.copied), log.batches[1].max_timestamp_ms)
    assert answer is not None
    assert answer.leader_epoch == log.epoch > 0


def test_damaged_batch_on_the_way_is_refused_by_segment_and_position() -> None:
    log = minutely_log(2)
    log.copy(0, 2)
    tier = TierInMemory(log.copied)
    segment_id = log.copied[0].metadata.segment_id
    content = bytearray(tier.files[segment_id][SegmentFile.LOG])
    content[16] = 1
    tier.files[segment_id][SegmentFile.LOG] = bytes(content)
    with pytest.raises(CorruptBatch, match=str(segment_id)):
        found(tier, 0)


def test_control_batch_with_a_wrong_checksum_answers_nothing() -> None:
    log = minutely_log(2)
    log.copy(0, 2)
    tier = TierInMemory(log.copied)
    segment_id = log.copied[0].metadata.segment_id
    content = bytearray(tier.files[segment_id][SegmentFile.LOG])
    content[42] ^= 1  # of its max timestamp
    tier.files[segment_id][SegmentFile.LOG] = bytes(content)
    with pytest.raises(CorruptBatch, match="checksum") as refused:
        found(tier, 0)
    assert refused.value.details == {"segment": str(segment_id), "position": "0"}


@given(sources(), st.integers(1, 90))
def test_answer_is_the_first_such_record_in_the_order_of_the_log(source: random.Random, steps: int) -> None:
    tier = TierInMemory(random_log(source, steps=steps).copied)
    for id_ in tier.copies:
        if source.random() < 0.1:
            tier.states[id_] = SegmentState.DELETE_STARTED
    if not tier.finished:
        return
    model = TierModel(tier.finished)
    rows = list(model.rows(0, 10**9))
    timestamp = source.choice([row[1] for row in rows] or [0]) + source.randint(-1, 1)
    start = source.choice([0, source.randint(0, max(model.offsets, default=0) + 2)])
    expected = next((row for row in rows if row[0] >= start and row[1] >= timestamp), None)
    answer = found(tier, timestamp, start_offset=start)
    assert answer == (expected and TimestampedOffset(expected[0], expected[1], expected[2].epoch))


class CountingTier(TierInMemory):
    """Knows how many bytes of logs were asked for."""

    log_bytes = 0

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        self.log_bytes += metadata.segment_size_bytes - offset if length is None else length
        return super().fetch_segment(metadata, offset=offset, length=length)


def test_no_more_of_a_large_segment_is_asked_for_than_where_the_record_is() -> None:
    log = minutely_log(4000)
    log.copy(0, 4000)
    tier = CountingTier(log.copied)
    size_bytes = log.copied[0].metadata.segment_size_bytes
    (offset, timestamp), *_ = log.batches[1500].rows
    assert found(tier, timestamp) == TimestampedOffset(offset, timestamp, 0)
    assert 0 < tier.log_bytes <= 80_000 < size_bytes / 3
