"""A metadata log that is rebuilt from manifests answers as the one that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.local_metadata import LocalMetadata
from support.metadata_histories import EPOCHS, OFFSETS, adds
from support.segments import make_data, make_metadata
from support.watched_store import WatchedStore
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.rebuild import Rebuild, RebuildReport
from tiergate_server.segments.segment_storage import SegmentStorage

PARTITION = TopicIdPartition(TopicId(b"t" * 16), 3, "orders")
DATA = make_data(log_bytes=40, index_bytes=8)


@contextmanager
def empty_metadata() -> Iterator[LocalMetadata]:
    log = MemoryEventLog()
    metadata = LocalMetadata(log)
    try:
        yield metadata
    finally:
        metadata.close()
        log.close()


@pytest.fixture
def metadata() -> Iterator[LocalMetadata]:
    with empty_metadata() as empty:
        yield empty


@pytest.fixture
def original() -> Iterator[LocalMetadata]:
    with empty_metadata() as empty:
        yield empty


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


def put(
    store: ObjectStore, metadata: LocalMetadata, segment: RemoteLogSegmentMetadata, *, store_name: str = "default"
) -> RemoteLogSegmentMetadata:
    metadata.add_segment(segment)
    custom = SegmentStorage(store, name=store_name).copy_segment(segment, DATA)
    finish = segment.step(
        SegmentState.COPY_FINISHED, event_timestamp_ms=segment.event_timestamp_ms, custom_metadata=custom
    )
    metadata.update_segment(finish)
    return segment.updated_by(finish)


def segments_in_a_row(count: int) -> list[RemoteLogSegmentMetadata]:
    return [
        replace(
            make_metadata(start_offset=start, end_offset=start + 9, epochs={1: start}, event_timestamp_ms=start),
            partition=replace(PARTITION, partition=number % 2),
        )
        for number, start in enumerate(range(0, 10 * count, 10))
    ]


def rebuilt(*stores: ObjectStore, into: LocalMetadata, writes: bool = True) -> RebuildReport:
    names = ["default", *(f"store-{number}" for number in range(1, len(stores)))]
    return Rebuild(dict(zip(names, stores, strict=True)), into, writes=writes).run()


def answers(metadata: LocalMetadata, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata | None]:
    return [
        metadata.find_segment(partition, leader_epoch=epoch, offset=offset) for epoch in EPOCHS for offset in OFFSETS
    ]


@given(st.lists(adds(st.just(PARTITION)), max_size=6, unique_by=lambda segment: segment.segment_id))
@settings(max_examples=40)
def test_every_lookup_is_answered_as_before(history: list[RemoteLogSegmentMetadata]) -> None:
    with TemporaryDirectory() as directory, empty_metadata() as original, empty_metadata() as again:
        store = FilesystemStore(Path(directory))
        for number, segment in enumerate(history):
            put(store, original, replace(segment, event_timestamp_ms=number, custom_metadata=None))
        assert rebuilt(store, into=again) == RebuildReport(added=len(history))
        assert answers(again, PARTITION) == answers(original, PARTITION)
        assert list(again.list_segments(PARTITION)) == list(original.list_segments(PARTITION))
        for epoch in EPOCHS:
            assert again.highest_offset_for_epoch(PARTITION, leader_epoch=epoch) == original.highest_offset_for_epoch(
                PARTITION, leader_epoch=epoch
            )


def test_partitions_spread_over_stores_come_together_in_order_of_time(
    original: LocalMetadata, metadata: LocalMetadata, tmp_path: Path
) -> None:
    stores = [FilesystemStore(tmp_path / name) for name in ("one", "two")]
    first = replace(
        make_metadata(start_offset=0, end_offset=9, epochs={1: 0}, event_timestamp_ms=5), partition=PARTITION
    )
    second = replace(first, segment_id=SegmentId.random(), event_timestamp_ms=9)
    put(stores[1], original, first, store_name="store-1")
    put(stores[0], original, second)
    assert rebuilt(*stores, into=metadata).added == 2
    expected = original.find_segment(PARTITION, leader_epoch=1, offset=3)
    assert expected is not None
    assert expected.segment_id == second.segment_id
    assert metadata.find_segment(PARTITION, leader_epoch=1, offset=3) == expected
    assert metadata.get_segment(first.segment_id) == original.get_segment(first.segment_id)


def test_rebuild_that_is_cut_off_anywhere_is_finished_by_the_next(
    original: LocalMetadata, store: FilesystemStore
) -> None:
    class CutOff(Exception):
        pass

    whole = [put(store, original, segment) for segment in segments_in_a_row(4)]

    def cut_at(last: int) -> Callable[[int], None]:
        def before(number: int) -> None:
            if number == last:
                raise CutOff

        return before

    last, is_cut = 0, True
    while is_cut:
        with empty_metadata() as again:
            is_cut = False
            try:
                rebuilt(WatchedStore(store, cut_at(last)), into=again)
            except CutOff:
                is_cut = True
            report = rebuilt(store, into=again)
            assert (report.added + report.present, report.skipped) == (4, [])
            assert [again.get_segment(segment.segment_id) for segment in whole] == whole
        last += 1
    assert last > 4


def test_segment_that_was_added_but_not_finished_is_finished(
    original: LocalMetadata, metadata: LocalMetadata, store: FilesystemStore
) -> None:
    segment = make_metadata()
    finished = put(store, original, segment)
    metadata.add_segment(segment)
    assert rebuilt(store, into=metadata).added == 1
    assert metadata.get_segment(segment.segment_id) == finished


def test_tombstones_and_unfinished_copies_are_counted_and_damage_is_told(
    original: LocalMetadata, metadata: LocalMetadata, store: FilesystemStore
) -> None:
    storage = SegmentStorage(store)
    good, deleted, unfinished, damaged, misplaced = (put(store, original, make_metadata()) for _ in range(5))
    storage.delete_segment(deleted)
    store.delete(SegmentKeys.of(unfinished).manifest)
    store.delete(SegmentKeys.of(damaged).manifest)
    store.put_if_absent(SegmentKeys.of(damaged).manifest, b"nonsense")
    manifest = store.get(SegmentKeys.of(misplaced).manifest)
    store.delete_many([stored.key for stored in store.list(SegmentKeys.of(misplaced).root)])
    elsewhere = SegmentKeys.of(replace(misplaced, partition=PARTITION)).manifest
    store.put_if_absent(elsewhere, manifest)
    report = rebuilt(store, into=metadata)
    assert (report.added, report.tombstones, report.unfinished) == (1, 1, 1)
    assert sorted(key for sentence in report.skipped for key in sentence.split()[:1]) == sorted(
        [SegmentKeys.of(damaged).manifest, elsewhere]
    )
    assert [summary.partition for summary in metadata.list_partitions()] == [good.partition]


def test_dry_run_counts_and_writes_nothing(
    original: LocalMetadata, metadata: LocalMetadata, store: FilesystemStore
) -> None:
    for segment in segments_in_a_row(3):
        put(store, original, segment)
    assert rebuilt(store, into=metadata, writes=False).added == 3
    assert list(metadata.list_partitions()) == []


def test_segment_that_the_log_refuses_is_told_and_the_others_go_on(
    original: LocalMetadata, metadata: LocalMetadata, store: FilesystemStore
) -> None:
    first, second = segments_in_a_row(2)
    put(store, original, first)
    put(store, original, second)
    metadata.add_segment(replace(first, end_offset=first.end_offset + 1, segment_leader_epochs=LeaderEpochs.of({1: 0})))
    report = rebuilt(store, into=metadata)
    assert report.added == 1
    (sentence,) = report.skipped
    assert sentence.startswith(f"segment {first.segment_id} was not taken by the log")
