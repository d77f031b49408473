"""Aborted transactions are found wherever their markers were copied to, and no read passes what is not decided."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_batches import transactions_of
from support.replicated_logs import PARTITION, ReplicatedLog, random_log, sources
from support.tier_in_memory import TierInMemory
from support.tier_model import TierModel
from tiergate_client.errors import CorruptBatch, SegmentNotFound, StorageUnavailable, StoredDataCorrupt, TiergateError
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.open_transactions import open_transactions
from tiergate_client.records.transactions import aborted_transactions, last_stable_offset
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState


def new_log() -> ReplicatedLog:
    return ReplicatedLog(random.Random(5))


def loaded(tier: TierInMemory) -> PartitionHistory:
    return load_history(tier.metadata, tier.storage, PARTITION)


def found(tier: TierInMemory, start: int, stop: int) -> list[tuple[int, int]]:
    entries = aborted_transactions(loaded(tier), tier.storage, start_offset=start, stop_offset=stop)
    return [(entry.producer_id, entry.first_offset) for entry in entries]


def tier_with_a_late_marker(*, says_txn_empty: bool = True) -> TierInMemory:
    """Data in the first segment, nothing of it in the next two, its marker in the fourth, another abort in the last."""
    log = new_log()
    log.append("transactional", producer_id=7, records=2)
    for _ in range(2):
        log.append("plain")
    log.append("abort", producer_id=7)
    log.append("transactional", producer_id=8)
    log.append("abort", producer_id=8)
    for first, stop in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 6)):
        log.copy(first, stop, says_txn_empty=says_txn_empty)
    tier = TierInMemory(log.copied)
    for copy in log.copied[:3]:
        tier.files[copy.metadata.segment_id].pop(SegmentFile.TXN_INDEX, None)
    return tier


def test_marker_in_a_later_segment_is_found_past_segments_without_an_index() -> None:
    tier = tier_with_a_late_marker(says_txn_empty=False)
    assert found(tier, 0, 1) == [(7, 0)]
    ids = [copy.metadata.segment_id for copy in tier.finished]
    assert tier.asked_for(SegmentFile.TXN_INDEX) == set(ids[:4])


def test_segments_that_say_they_have_no_aborts_are_not_asked() -> None:
    tier = tier_with_a_late_marker()
    assert found(tier, 0, 1) == [(7, 0)]
    ids = [copy.metadata.segment_id for copy in tier.finished]
    assert tier.asked_for(SegmentFile.TXN_INDEX) == set(ids[3:])


def test_range_between_data_and_marker_is_told_of_the_transaction_and_one_behind_it_is_not() -> None:
    tier = tier_with_a_late_marker()
    marker = tier.finished[3].metadata.start_offset
    assert found(tier, marker - 1, marker) == [(7, 0)]
    assert found(tier, marker, marker + 1) == [(7, 0)]
    assert found(tier, marker + 1, marker + 2) == [(8, marker + 1)]
    assert found(tier, 5, 5) == []


@pytest.mark.parametrize("error", [StorageUnavailable("down"), SegmentNotFound("gone"), StoredDataCorrupt("damaged")])
def test_any_error_but_a_missing_index_is_raised(error: TiergateError) -> None:
    tier = tier_with_a_late_marker()
    tier.failing[tier.finished[3].metadata.segment_id, SegmentFile.TXN_INDEX] = error
    with pytest.raises(type(error)):
        found(tier, 0, 1)


def test_damaged_index_is_refused_by_the_name_of_its_segment() -> None:
    tier = tier_with_a_late_marker()
    segment_id = tier.finished[3].metadata.segment_id
    tier.files[segment_id][SegmentFile.TXN_INDEX] += b"x"
    with pytest.raises(StoredDataCorrupt, match=str(segment_id)):
        found(tier, 0, 1)


def test_abort_that_its_leader_lost_is_not_told() -> None:
    log = new_log()
    log.append("transactional", producer_id=7)
    log.append("abort", producer_id=7)
    log.copy(0, 2)
    log.change_leader(lost_batches=1)
    log.append("commit", producer_id=7)
    log.copy(1, 2)
    assert found(TierInMemory(log.copied), 0, 1) == []


def test_read_ends_before_a_transaction_that_the_tier_leaves_open() -> None:
    log = new_log()
    log.append("plain")
    first = log.end_offset
    log.append("transactional", producer_id=7)
    log.append("plain")
    log.copy(0, 3)
    tier = TierInMemory(log.copied)
    assert last_stable_offset(loaded(tier), tier.storage) == first
    assert tier.asked_for(SegmentFile.OFFSET_INDEX) == set()
    log.append("commit", producer_id=7)
    log.copy(3, 4)
    tier = TierInMemory(log.copied)
    assert last_stable_offset(loaded(tier), tier.storage) == log.end_offset


def test_without_a_snapshot_only_what_follows_the_last_one_is_scanned() -> None:
    log = new_log()
    first = log.end_offset
    log.append("transactional", producer_id=7)
    log.copy(0, 1)
    log.append("transactional", producer_id=8)
    log.copy(1, 2, with_snapshot=False)
    log.append("commit", producer_id=8)
    log.copy(2, 3, with_snapshot=False)
    tier = TierInMemory(log.copied)
    assert last_stable_offset(loaded(tier), tier.storage) == first
    ids = [copy.metadata.segment_id for copy in log.copied]
    assert tier.asked_for(SegmentFile.LOG) == set(ids[1:])


def tier_of_three_segments(*, snapshots: tuple[bool, bool, bool]) -> tuple[TierInMemory, ReplicatedLog]:
    """Producer 7 is open from the first segment on, 8 in the second."""
    log = new_log()
    log.append("transactional", producer_id=7)
    log.append("transactional", producer_id=8)
    log.append("commit", producer_id=8)
    for number, with_snapshot in enumerate(snapshots):
        log.copy(number, number + 1, with_snapshot=with_snapshot)
    return TierInMemory(log.copied), log


def test_damaged_snapshot_is_dropped_for_an_older_one(caplog: pytest.LogCaptureFixture) -> None:
    tier, log = tier_of_three_segments(snapshots=(True, True, True))
    first, second, third = (copy.metadata.segment_id for copy in log.copied)
    for segment_id in (second, third):
        damaged = bytearray(tier.files[segment_id][SegmentFile.PRODUCER_SNAPSHOT])
        damaged[-1] ^= 1
        tier.files[segment_id][SegmentFile.PRODUCER_SNAPSHOT] = bytes(damaged)
    assert last_stable_offset(loaded(tier), tier.storage) == 0
    assert tier.asked_for(SegmentFile.LOG) == {second, third}
    assert [str(one) in caplog.text for one in (first, second, third)] == [False, True, True]


def test_snapshot_that_the_storage_finds_damaged_is_not_dropped() -> None:
    tier, log = tier_of_three_segments(snapshots=(True, True, True))
    segment_id = log.copied[2].metadata.segment_id
    tier.failing[segment_id, SegmentFile.PRODUCER_SNAPSHOT] = StoredDataCorrupt("damaged")
    with pytest.raises(StoredDataCorrupt, match="damaged"):
        last_stable_offset(loaded(tier), tier.storage)


def test_what_was_scanned_once_is_not_scanned_again() -> None:
    tier, log = tier_of_three_segments(snapshots=(False, False, False))
    last = log.copied[2].metadata.segment_id
    tier.states[last] = SegmentState.COPY_STARTED
    assert last_stable_offset(loaded(tier), tier.storage) == 0
    tier.asked.clear()
    assert last_stable_offset(loaded(tier), tier.storage) == 0
    assert tier.asked_for(SegmentFile.LOG) == tier.asked_for(SegmentFile.PRODUCER_SNAPSHOT) == set()
    tier.states[last] = SegmentState.COPY_FINISHED
    tier.states[log.copied[0].metadata.segment_id] = SegmentState.DELETE_STARTED
    history = loaded(tier)
    assert last_stable_offset(history, tier.storage) == history.start_offset > 0
    assert tier.asked_for(SegmentFile.LOG) == {last}
    assert open_transactions(history, tier.storage) == {7: 0}


def test_scan_over_a_hole_is_not_remembered() -> None:
    tier, log = tier_of_three_segments(snapshots=(False, False, False))
    log.append("commit", producer_id=7)
    log.copy(3, 4, with_snapshot=False)
    tier = TierInMemory(log.copied)
    hole = log.copied[1].metadata.segment_id
    tier.states[hole] = SegmentState.COPY_STARTED
    last_stable_offset(loaded(tier), tier.storage)
    tier.states[hole] = SegmentState.COPY_FINISHED
    tier.asked.clear()
    assert last_stable_offset(loaded(tier), tier.storage) == log.end_offset
    assert tier.asked_for(SegmentFile.LOG) == {copy.metadata.segment_id for copy in log.copied}


def test_stable_offset_of_an_empty_history_is_its_beginning() -> None:
    assert last_stable_offset(loaded(TierInMemory([])), TierInMemory([]).storage) == 0


def test_snapshot_of_a_segment_that_is_read_in_part_is_not_believed() -> None:
    log = new_log()
    log.append("plain")
    log.append("transactional", producer_id=7)
    log.copy(0, 2)
    log.change_leader(lost_batches=1)
    log.append("plain")
    log.copy(1, 2, with_snapshot=False)
    tier = TierInMemory(log.copied)
    assert last_stable_offset(loaded(tier), tier.storage) == log.end_offset
    assert tier.asked_for(SegmentFile.PRODUCER_SNAPSHOT) == {log.copied[1].metadata.segment_id}


def test_damaged_batch_under_the_scan_is_refused_by_segment_and_position() -> None:
    log = new_log()
    log.append("transactional", producer_id=7)
    log.append("plain")
    log.copy(0, 2, with_snapshot=False)
    tier = TierInMemory(log.copied)
    segment_id = log.copied[0].metadata.segment_id
    position = len(log.batches[0].content)
    content = bytearray(tier.files[segment_id][SegmentFile.LOG])
    content[position + 16] = 9
    tier.files[segment_id][SegmentFile.LOG] = bytes(content)
    with pytest.raises(CorruptBatch) as refused:
        last_stable_offset(loaded(tier), tier.storage)
    assert refused.value.details == {"segment": str(segment_id), "position": str(position)}


def test_damaged_marker_under_the_scan_is_refused_and_ends_no_transaction_of_another() -> None:
    log = new_log()
    log.append("transactional", producer_id=7, records=2)
    log.append("transactional", producer_id=8, records=2)
    log.append("commit", producer_id=8)
    log.copy(0, 3, with_snapshot=False)
    tier = TierInMemory(log.copied)
    assert last_stable_offset(loaded(tier), tier.storage) == 0
    segment_id = log.copied[0].metadata.segment_id
    position = sum(len(batch.content) for batch in log.batches[:2])
    content = bytearray(tier.files[segment_id][SegmentFile.LOG])
    assert content[position + 50] == 8
    content[position + 50] = 7
    tier = TierInMemory(log.copied)
    tier.files[segment_id][SegmentFile.LOG] = bytes(content)
    with pytest.raises(CorruptBatch, match="checksum") as refused:
        last_stable_offset(loaded(tier), tier.storage)
    assert refused.value.details == {"segment": str(segment_id), "position": str(position)}


@given(sources(), st.integers(1, 90))
def test_aborts_of_random_leaders_are_those_of_the_newest_log(source: random.Random, steps: int) -> None:
    tier = TierInMemory(random_log(source, steps=steps).copied)
    history = loaded(tier)
    if not history.pieces:
        return
    model = TierModel(tier.finished)
    start = source.randint(history.start_offset, history.stop_offset)
    stop = source.randint(start, history.stop_offset)
    entries = aborted_transactions(history, tier.storage, start_offset=start, stop_offset=stop)
    expected = [
        (one.producer_id, one.first_offset, one.marker_offset)
        for one in model.transactions
        if one.is_aborted and one.marker_offset is not None and one.marker_offset >= start and one.first_offset < stop
    ]
    told = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries]
    assert told == (expected if start < stop else [])


@given(sources(), st.integers(1, 90), st.sampled_from([1.0, 0.5, 0.1, 0.0]))
def test_stable_offset_is_the_first_open_transaction_of_the_newest_log(
    source: random.Random, steps: int, snapshots: float
) -> None:
    tier = TierInMemory(random_log(source, steps=steps, snapshots=snapshots).copied)
    history = loaded(tier)
    if not history.pieces or history.holes(history.start_offset, history.stop_offset):
        return
    model = TierModel(tier.finished)
    said = last_stable_offset(history, tier.storage)
    # What lies below the history is known from snapshots alone.
    readable = [batch for batch in model.log if batch.last_offset >= history.start_offset]
    allowed = set()
    for log in (model.log, readable):
        open_firsts = [one.first_offset for one in transactions_of(log) if one.marker_offset is None]
        first = min(open_firsts, default=history.stop_offset)
        allowed.add(max(history.start_offset, first))
    assert said in allowed
    if snapshots == 1.0:
        first_open = model.first_open_offset
        assert said == max(history.start_offset, history.stop_offset if first_open is None else first_open)
