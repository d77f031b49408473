"""Of all that leaders copied, one history is read: each offset once, from the leaders that a consumer would follow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_batches import LogBatch
from support.replicated_logs import PARTITION, ReplicatedLog, random_log, sources
from support.tier_in_memory import TierInMemory
from support.tier_model import TierModel
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import SegmentNotFound, StorageUnavailable, StoredDataCorrupt
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition


def new_log(*, batches: int = 0) -> ReplicatedLog:
    log = ReplicatedLog(random.Random(1))
    for _ in range(batches):
        append(log)
    return log


def append(log: ReplicatedLog, count: int = 1) -> None:
    """Batches of ten records without gaps, so that offsets are plain to see."""
    for _ in range(count):
        base = log.end_offset
        log.append("plain", records=1)
        written = log.batches.pop()
        rows = tuple((base + delta, written.max_timestamp_ms) for delta in range(10))
        log.batches.append(
            LogBatch(written.epoch, base, base + 9, "plain", -1, rows, written.max_timestamp_ms, written.content)
        )


def loaded(tier: TierInMemory) -> PartitionHistory:
    return load_history(tier.metadata, tier.storage, PARTITION)


def spans(history: PartitionHistory) -> list[tuple[int, int]]:
    return [(piece.start_offset, piece.stop_offset) for piece in history.pieces]


def test_history_of_a_partition_without_segments_is_empty() -> None:
    history = loaded(TierInMemory([]))
    assert (history.pieces, history.start_offset, history.stop_offset) == ((), 0, 0)
    assert history.lineage == LeaderEpochs(())
    assert history.holes(3, 9) == [(3, 9)]


@pytest.mark.parametrize("state", [SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED])
def test_segment_that_is_not_finished_is_not_part_of_it(state: SegmentState) -> None:
    log = new_log(batches=4)
    log.copy(0, 2)
    log.copy(2, 4)
    tier = TierInMemory(log.copied)
    tier.states[log.copied[1].metadata.segment_id] = state
    assert spans(loaded(tier)) == [(0, 20)]


def test_what_a_leader_wrote_and_lost_is_not_part_of_it() -> None:
    log = new_log(batches=4)
    log.copy(0, 4)
    log.change_leader(lost_batches=2)
    append(log, 1)
    log.copy(2, 3)
    history = loaded(TierInMemory(log.copied))
    assert spans(history) == [(0, 20), (20, 30)]
    assert [piece.segment for piece in history.pieces] == [copy.metadata for copy in log.copied]
    assert not history.pieces[0].is_whole_at_its_end


def test_segment_of_a_lost_leader_alone_is_left_out_although_it_reaches_further() -> None:
    log = new_log(batches=2)
    log.change_leader()
    log.copy(0, 2)
    append(log, 6)
    log.copy(2, 8)
    log.change_leader(lost_batches=6)
    append(log, 1)
    log.copy(2, 3)
    assert spans(loaded(TierInMemory(log.copied))) == [(0, 20), (20, 30)]


def test_copies_of_the_same_offsets_are_read_once_from_as_few_segments_as_can_be() -> None:
    log = new_log(batches=6)
    for first, stop in ((0, 2), (1, 3), (0, 2), (2, 6), (3, 5), (5, 6)):
        log.copy(first, stop)
    history = loaded(TierInMemory(log.copied))
    assert spans(history) == [(0, 20), (20, 60)]
    assert history.pieces[1].segment == log.copied[3].metadata


def test_documented_lineages_cut_and_uncut_hold_both_segments() -> None:
    def piece_starts(lineage: LeaderEpochs) -> list[tuple[int, int]]:
        log = new_log(batches=16)
        log.lineage = LeaderEpochs.of({5: 10, 7: 20, 9: 100})
        log.copy(1, 6)
        log.copy(2, 16)
        tier = TierInMemory(log.copied)
        tier.files[log.copied[1].metadata.segment_id][SegmentFile.LEADER_EPOCH] = lineage.to_checkpoint()
        return spans(loaded(tier))

    assert piece_starts(LeaderEpochs.of({5: 10, 7: 20, 9: 100})) == [(10, 60), (60, 160)]
    assert piece_starts(LeaderEpochs.of({7: 51, 9: 100})) == [(51, 160)]


def test_deleted_records_are_not_part_of_it_although_their_bytes_are_there() -> None:
    log = new_log(batches=3)
    log.copy(0, 3)
    log.delete_records(25)
    append(log)
    log.copy(3, 4)
    assert spans(loaded(TierInMemory(log.copied))) == [(25, 30), (30, 40)]


def test_epochs_without_records_change_nothing() -> None:
    log = new_log(batches=1)
    log.copy(0, 1)
    log.change_leader(silent_epochs=3)
    append(log)
    log.change_leader(silent_epochs=2)
    log.copy(1, 2)
    assert spans(loaded(TierInMemory(log.copied))) == [(0, 10), (10, 20)]


def test_holes_are_named_before_between_and_behind_the_pieces() -> None:
    log = new_log(batches=9)
    for first in (1, 3, 4, 6):
        log.copy(first, first + 1)
    history = loaded(TierInMemory(log.copied))
    assert history.holes(0, 100) == [(0, 10), (20, 30), (50, 60), (70, 100)]
    assert history.holes(15, 55) == [(20, 30), (50, 55)]
    assert history.holes(30, 50) == history.holes(12, 12) == []


class ListedTier(TierInMemory):
    """Counts how often it is listed."""

    listings = 0

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        self.listings += 1
        return super().list_segments(partition, leader_epoch=leader_epoch)


class ShrinkingTier(ListedTier):
    """Retention removes its two oldest segments while it is listed for the first time."""

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        oldest, next_oldest, *_ = sorted(self.copies, key=lambda id_: self.copies[id_].metadata.start_offset)
        for number, segment in enumerate(super().list_segments(partition, leader_epoch=leader_epoch)):
            if number == 1 and self.listings == 1:
                self.states[oldest] = self.states[next_oldest] = SegmentState.DELETE_STARTED
            if self.states[segment.segment_id] is SegmentState.COPY_FINISHED:
                yield segment


def test_retention_during_the_listing_leaves_no_hole() -> None:
    log = new_log(batches=4)
    for first in range(4):
        log.copy(first, first + 1)
    tier = ShrinkingTier(log.copied)
    assert spans(loaded(tier)) == [(20, 30), (30, 40)]
    assert tier.listings == 2


def test_hole_that_stays_is_looked_at_twice_and_told() -> None:
    log = new_log(batches=3)
    log.copy(0, 1)
    log.copy(2, 3)
    tier = ListedTier(log.copied)
    history = loaded(tier)
    assert history.holes(history.start_offset, history.stop_offset) == [(10, 20)]
    assert tier.listings == 2


def test_newest_segment_that_is_deleted_meanwhile_is_looked_up_again() -> None:
    log = new_log(batches=2)
    log.copy(0, 1)
    log.copy(1, 2)
    tier = TierInMemory(log.copied)
    newest = log.copied[1].metadata.segment_id
    tier.failing[newest, SegmentFile.LEADER_EPOCH] = SegmentNotFound("deleted")
    with pytest.raises(SegmentNotFound):
        loaded(tier)
    assert tier.asked == [(newest, SegmentFile.LEADER_EPOCH)] * 2


@pytest.mark.parametrize("content", [b"", b"1\n0\n", b"0\n1\n77 0\n", b"0\n1\n0 10\n"])
def test_lineage_that_does_not_hold_its_own_segment_is_refused_by_name(content: bytes) -> None:
    log = new_log(batches=1)
    log.copy(0, 1)
    tier = TierInMemory(log.copied)
    segment_id = log.copied[0].metadata.segment_id
    tier.files[segment_id][SegmentFile.LEADER_EPOCH] = content
    with pytest.raises(StoredDataCorrupt, match=str(segment_id)):
        loaded(tier)


@pytest.mark.parametrize(
    "told",
    [
        {0: 0},
        {0: 0, 4: 20},
        {0: 0, 2: 10},
        {0: 0, 2: 11, 4: 20},
        {0: 0, 2: 10, 4: 21},
        {0: 0, 3: 10, 4: 20},
        {0: 0, 2: 10, 4: 20, 5: 29},
        {0: 25, 2: 10, 4: 20},
        {4: 30},
    ],
)
def test_lineage_that_says_something_else_of_its_own_segment_is_refused_by_name(told: dict[int, int]) -> None:
    log = new_log(batches=3)
    log.lineage = LeaderEpochs.of({0: 0, 2: 10, 4: 20})
    log.copy(0, 3)
    tier = TierInMemory(log.copied)
    assert spans(loaded(tier)) == [(0, 30)]
    segment_id = log.copied[0].metadata.segment_id
    tier.files[segment_id][SegmentFile.LEADER_EPOCH] = LeaderEpochs.of(told).to_checkpoint()
    with pytest.raises(StoredDataCorrupt, match=f"{segment_id}.*leader epoch index"):
        loaded(tier)


def test_lineage_whose_offsets_do_not_ascend_is_refused_also_before_its_segment() -> None:
    log = new_log(batches=3)
    log.lineage = LeaderEpochs.of({0: 0, 2: 10, 4: 20})
    for number in range(3):
        log.copy(number, number + 1)
    tier = TierInMemory(log.copied)
    newest = log.copied[2].metadata.segment_id
    tier.files[newest][SegmentFile.LEADER_EPOCH] = LeaderEpochs.of({0: 15, 2: 10, 4: 20}).to_checkpoint()
    with pytest.raises(StoredDataCorrupt, match="do not ascend"):
        loaded(tier)


@pytest.mark.parametrize("log_start", [0, 5, 10, 15, 25, 29])
@pytest.mark.parametrize("is_known_to_the_metadata", [True, False])
def test_lineage_that_is_cut_at_the_log_start_is_that_of_its_segment(
    log_start: int, is_known_to_the_metadata: bool
) -> None:
    log = new_log(batches=3)
    log.lineage = LeaderEpochs.of({0: 0, 1: 10, 2: 10, 4: 20})
    before = log.lineage.within(0, 29)
    log.delete_records(log_start)
    log.copy(0, 3)
    (copy,) = log.copied
    if not is_known_to_the_metadata:
        copy = replace(copy, metadata=replace(copy.metadata, segment_leader_epochs=before))
    assert spans(loaded(TierInMemory([copy]))) == [(log_start, 30)]


def test_epochs_without_records_need_not_be_in_both() -> None:
    log = new_log(batches=2)
    log.lineage = LeaderEpochs.of({0: 0, 2: 10})
    log.copy(0, 2)
    tier = TierInMemory(log.copied)
    told = LeaderEpochs.of({0: 0, 1: 10, 2: 10, 3: 20})
    tier.files[log.copied[0].metadata.segment_id][SegmentFile.LEADER_EPOCH] = told.to_checkpoint()
    assert spans(loaded(tier)) == [(0, 20)]


def test_lineage_that_can_not_be_fetched_is_an_error() -> None:
    log = new_log(batches=1)
    log.copy(0, 1)
    tier = TierInMemory(log.copied)
    tier.failing[log.copied[0].metadata.segment_id, SegmentFile.LEADER_EPOCH] = StorageUnavailable("down")
    with pytest.raises(StorageUnavailable):
        loaded(tier)


@given(sources(), st.integers(1, 80))
def test_history_of_random_leaders_is_that_of_the_newest(source: random.Random, steps: int) -> None:
    log = random_log(source, steps=steps)
    tier = TierInMemory(log.copied)
    for id_ in tier.copies:
        if source.random() < 0.2:
            tier.states[id_] = source.choice([SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED])
    history = loaded(tier)
    if not tier.finished:
        assert not history.pieces
        return
    model = TierModel(tier.finished)
    read = [offset for piece in history.pieces for offset in range(piece.start_offset, piece.stop_offset)]
    assert read == sorted(model.offsets)
    in_log = set(model.log)
    for piece in history.pieces:
        for batch in tier.copies[piece.segment.segment_id].batches:
            if batch.last_offset >= piece.start_offset and batch.base_offset < piece.stop_offset:
                assert batch in in_log
