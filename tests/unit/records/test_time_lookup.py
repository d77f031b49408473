"""The first record from a time on is found as Kafka's offsetsForTimes finds it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicated_logs import PARTITION, ReplicatedLog, random_log, sources
from support.tier_in_memory import TierInMemory
from support.tier_model import TierModel
from tiergate_client.errors import CorruptBatch, OffsetOutOfRange
from tiergate_client.interfaces import SegmentStream
from tiergate_client.records.history import load_history
from tiergate_client.records.time_lookup import TimestampedOffset, find_offset_by_time
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState


def found(
    tier: TierInMemory, timestamp_ms: int, *, start_offset: int = 0, fail_on_data_loss: bool = True
) -> TimestampedOffset | None:
    history = load_history(tier.metadata, tier.storage, PARTITION)
    return find_offset_by_time(
        history, tier.storage, timestamp_ms, start_offset=start_offset, fail_on_data_loss=fail_on_data_loss
    )


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


def tier_with_a_hole() -> tuple[TierInMemory, ReplicatedLog]:
    """Segments of the offsets 0 to 2 and 6 to 8, one record a minute."""
    log = minutely_log(9)
    for first in (0, 3, 6):
        log.copy(first, first + 3)
    tier = TierInMemory(log.copied)
    tier.states[log.copied[1].metadata.segment_id] = SegmentState.COPY_STARTED
    return tier, log


def test_record_in_the_piece_behind_a_hole_is_an_error_unless_loss_is_accepted() -> None:
    tier, log = tier_with_a_hole()
    for number in (4, 6, 8):  # the first such record is in the hole, or may be
        timestamp = log.batches[number].max_timestamp_ms
        with pytest.raises(OffsetOutOfRange, match="offsets 3 to 5:") as refused:
            found(tier, timestamp)
        assert refused.value.details == {"earliest": "0", "latest": "9", "missing": "3-5"}
        given = found(tier, timestamp, fail_on_data_loss=False)
        assert given is not None
        assert given.offset == max(number, 6)


def test_hole_behind_the_record_or_before_the_start_is_no_error() -> None:
    tier, log = tier_with_a_hole()
    for number, start in ((2, 0), (6, 6), (8, 7)):
        given = found(tier, log.batches[number].max_timestamp_ms, start_offset=start)
        assert given is not None
        assert given.offset == number
    with pytest.raises(OffsetOutOfRange, match="offsets 4 to 5:"):
        found(tier, log.batches[6].max_timestamp_ms, start_offset=4)


def test_what_was_deleted_before_the_first_segment_is_no_hole() -> None:
    tier, log = tier_with_a_hole()
    tier.states[log.copied[0].metadata.segment_id] = SegmentState.DELETE_STARTED
    assert found(tier, 0) == TimestampedOffset(6, log.batches[6].max_timestamp_ms, 0)


@pytest.mark.parametrize("tells_its_latest", [True, False])
def test_hole_before_a_segment_that_is_all_older_is_taken_for_older(tells_its_latest: bool) -> None:
    tier, log = tier_with_a_hole()
    log.append("commit", producer_id=9)
    log.copy(9, 10)
    after_hole = log.copied[2]
    if not tells_its_latest:
        log.copied[2] = replace(after_hole, metadata=replace(after_hole.metadata, max_timestamp_ms=-1))
    tier = TierInMemory(log.copied)
    tier.states[log.copied[1].metadata.segment_id] = SegmentState.COPY_STARTED
    last = log.batches[9].max_timestamp_ms
    assert found(tier, last) == TimestampedOffset(9, last, 0)
    assert (after_hole.metadata.segment_id in tier.asked_for(SegmentFile.TIME_INDEX)) == (not tells_its_latest)
    assert found(tier, last + 1) is None


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


def test_record_is_not_passed_over_for_a_damaged_time_of_its_batch() -> None:
    log = minutely_log(4)
    log.copy(0, 4)
    tier = TierInMemory(log.copied)
    segment_id = log.copied[0].metadata.segment_id
    position = len(log.batches[0].content)
    content = bytearray(tier.files[segment_id][SegmentFile.LOG])
    content[position + 37] = 0  # of the max timestamp, which is long ago then
    tier.files[segment_id][SegmentFile.LOG] = bytes(content)
    for number in (1, 2):
        with pytest.raises(CorruptBatch, match="checksum") as refused:
            found(tier, log.batches[number].max_timestamp_ms, start_offset=1)
        assert refused.value.details == {"segment": str(segment_id), "position": str(position)}
    for number, start in ((0, 0), (2, 2)):  # before it and behind it is read on
        timestamp = log.batches[number].max_timestamp_ms
        assert found(tier, timestamp, start_offset=start) == TimestampedOffset(number, timestamp, 0)


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
    answer = found(tier, timestamp, start_offset=start, fail_on_data_loss=False)
    assert answer == (expected and TimestampedOffset(expected[0], expected[1], expected[2].epoch))
    missing = expected and missing_before(tier, model, expected[0], start)
    if missing:
        with pytest.raises(OffsetOutOfRange) as refused:
            found(tier, timestamp, start_offset=start)
        assert refused.value.details["missing"] == f"{missing[0]}-{missing[-1]}"
    else:
        assert found(tier, timestamp, start_offset=start) == answer


def missing_before(tier: TierInMemory, model: TierModel, offset: int, start: int) -> list[int]:
    """The offsets from the start on that no segment holds, right before the piece of the history with this offset."""
    pieces = load_history(tier.metadata, tier.storage, PARTITION).pieces
    behind = next(piece.start_offset for piece in pieces if offset < piece.stop_offset)
    lowest = max(start, min(model.offsets))
    return list(takewhile(lambda one: one not in model.offsets, range(behind - 1, lowest - 1, -1)))[::-1]


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
