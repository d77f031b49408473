"""What gc removes from a directory, what it leaves, and what it holds in memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local_metadata import LocalMetadata
from support.planted_garbage import DATA, STRANGERS, Plantation, stored_keys
from support.segments import make_metadata
from support.watched_store import WatchedStore
from tiergate_client.clock import system_clock
from tiergate_client.ids import LogId, SegmentId, TopicId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.segments.framed_json import frame
from tiergate_server.segments.garbage import GarbageKind
from tiergate_server.segments.garbage_collection import GarbageCollection, GarbageReport, holds_segments
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest import TombstoneV1
from tiergate_server.segments.object_store import ObjectInfo, ObjectStore, PartialInfo

LOG = LogId(b"l" * 16)
LATER_MS = 2**50
"""Everything is older than this."""
DAY_S = 86400


@pytest.fixture
def metadata() -> Iterator[LocalMetadata]:
    log = MemoryEventLog()
    local = LocalMetadata(log)
    yield local
    local.close()
    log.close()


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def planted(store: FilesystemStore, metadata: LocalMetadata) -> Plantation:
    return Plantation(store, metadata)


def collect(
    store: ObjectStore, metadata: LocalMetadata, *, before_ms: int = LATER_MS, deletes: bool = True
) -> GarbageReport:
    return GarbageCollection(store, metadata, before_ms=before_ms, deletes=deletes).run()


def make_old(directory: Path) -> None:
    """Everything that is there by now, as if nobody had touched it for two days."""
    then_s = system_clock() / 1000 - 2 * DAY_S
    for path in directory.rglob("*"):
        if path.is_file():
            os.utime(path, (then_s, then_s))


def counted(report: GarbageReport) -> dict[GarbageKind, int]:
    return {kind: tally.objects for kind, tally in report.garbage.items()}


def test_exactly_the_garbage_goes_and_a_second_run_finds_none(planted: Plantation, metadata: LocalMetadata) -> None:
    planted.one_of_each_kind(LOG)
    seen = stored_keys(planted.store)
    report = collect(planted.store, metadata)
    assert counted(report) == planted.counts()
    assert all(count > 0 for count in counted(report).values())
    assert (report.seen.objects, report.unknown_keys) == (len(seen), sorted(STRANGERS))
    planted.assert_only_the_garbage_is_gone()
    assert collect(planted.store, metadata).found.objects == 0


def test_dry_run_finds_the_same_and_removes_nothing(planted: Plantation, metadata: LocalMetadata) -> None:
    planted.one_of_each_kind(LOG)
    before = stored_keys(planted.store)
    report = collect(planted.store, metadata, deletes=False)
    assert counted(report) == planted.counts()
    assert stored_keys(planted.store) == before
    assert len([*planted.store.list_partials("")]) == planted.partials
    assert report.garbage == collect(planted.store, metadata).garbage


def test_nothing_younger_than_the_safety_age_goes(planted: Plantation, metadata: LocalMetadata, tmp_path: Path) -> None:
    planted.one_of_each_kind(LOG)
    day_ago_ms = system_clock() - DAY_S * 1000
    assert collect(planted.store, metadata, before_ms=day_ago_ms).found.objects == 0
    tombstones = planted.garbage.pop(GarbageKind.TOMBSTONE)
    make_old(tmp_path)
    planted.running_upload()
    collect(planted.store, metadata, before_ms=day_ago_ms)
    # A tombstone says itself when its segment was deleted, whatever the time of its file.
    planted.kept |= tombstones
    planted.assert_only_the_garbage_is_gone()


def test_upload_that_began_long_ago_is_left_alone_while_files_of_it_come_in(
    planted: Plantation, metadata: LocalMetadata, tmp_path: Path
) -> None:
    planted.running_upload()
    make_old(tmp_path)
    (index,) = tmp_path.rglob("time_index")
    os.utime(index)
    assert collect(planted.store, metadata, before_ms=system_clock() - DAY_S * 1000).found.objects == 0
    planted.assert_only_the_garbage_is_gone()


def test_old_files_are_left_alone_while_an_upload_of_their_segment_runs(
    planted: Plantation, metadata: LocalMetadata, tmp_path: Path
) -> None:
    planted.running_upload()
    make_old(tmp_path)
    (partial,) = (path for path in (tmp_path / ".partials").rglob("*") if path.is_file())
    os.utime(partial)
    assert collect(planted.store, metadata, before_ms=system_clock() - DAY_S * 1000).found.objects == 0
    planted.assert_only_the_garbage_is_gone()


class StoreOfParts(WatchedStore):
    """Lists when uploads began, as S3 does, and tells of their last part when it is asked."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store, lambda _: None)

    def last_written_ms(self, partial: PartialInfo) -> int:  # noqa: ARG002
        return system_clock()


def test_upload_that_began_long_ago_is_left_alone_while_parts_of_it_come_in(
    planted: Plantation, metadata: LocalMetadata, tmp_path: Path
) -> None:
    planted.running_upload()
    make_old(tmp_path)
    store = StoreOfParts(planted.store)
    assert collect(store, metadata, before_ms=system_clock() - DAY_S * 1000).found.objects == 0
    planted.assert_only_the_garbage_is_gone()


class LateMetadata(LocalMetadata):
    """A segment is added right after its partition was listed."""

    late: RemoteLogSegmentMetadata | None = None

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        yield from super().list_segments(partition, leader_epoch=leader_epoch)
        if self.late is not None:
            segment, self.late = self.late, None
            self.add_segment(segment)


def test_segment_that_is_added_while_gc_looks_at_it_stays(store: FilesystemStore) -> None:
    log = MemoryEventLog()
    metadata = LateMetadata(log)
    try:
        segment = make_metadata()
        Plantation(store, metadata).storage.copy_segment(segment, DATA)
        before = stored_keys(store)
        metadata.late = segment
        assert collect(store, metadata).found.objects == 0
        assert metadata.late is None
        assert stored_keys(store) == before
    finally:
        metadata.close()
        log.close()


def test_segment_in_every_state_that_the_metadata_knows_stays(planted: Plantation, metadata: LocalMetadata) -> None:
    segment = planted.live_segment()
    for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
        assert collect(planted.store, metadata).found.objects == 0
        metadata.update_segment(segment.step(state, event_timestamp_ms=3))
    assert collect(planted.store, metadata).garbage[GarbageKind.SEGMENT].objects == len(planted.kept)
    assert stored_keys(planted.store) == set()


def test_tombstone_stays_until_the_metadata_forgets_its_segment(planted: Plantation, metadata: LocalMetadata) -> None:
    segment = planted.live_segment()
    metadata.update_segment(segment.step(SegmentState.DELETE_STARTED, event_timestamp_ms=3))
    planted.storage.delete_segment(segment)
    (tombstone,) = stored_keys(planted.store)
    assert collect(planted.store, metadata).found.objects == 0
    metadata.update_segment(segment.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=4))
    assert collect(planted.store, metadata).garbage[GarbageKind.TOMBSTONE].objects == 1
    assert tombstone not in stored_keys(planted.store)


@pytest.mark.parametrize("manifest", [b"nonsense", frame({"version": 99})], ids=["damaged", "newer"])
def test_orphan_whose_manifest_cannot_be_read_is_left_alone_and_told(
    planted: Plantation, metadata: LocalMetadata, manifest: bytes
) -> None:
    segment = make_metadata()
    planted.storage.copy_segment(segment, DATA)
    key = SegmentKeys.of(segment).manifest
    planted.store.delete(key)
    planted.store.put_if_absent(key, manifest)
    before = stored_keys(planted.store)
    report = collect(planted.store, metadata)
    assert (report.found.objects, report.unknown_keys) == (0, [key])
    assert stored_keys(planted.store) == before


def test_store_of_tombstones_and_strangers_holds_no_segments(planted: Plantation) -> None:
    planted.residents(LOG)
    planted.store.put_if_absent(
        SegmentKeys.of(make_metadata()).manifest, TombstoneV1(SegmentId(b"s" * 16), 5).to_bytes()
    )
    assert not holds_segments(planted.store)
    planted.orphan()
    assert holds_segments(planted.store)


class VastStore(FilesystemStore):
    """Lists far more than there is, one object at a time."""

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        if prefix:
            return super().list(prefix, after=after)
        return self._vast()

    def _vast(self) -> Iterator[ObjectInfo]:
        names = ("leader_epoch", "log", "offset_index", "time_index", "upload.json")
        topics = sorted(str(TopicId(number.to_bytes(16))) for number in range(40))
        segments = sorted(str(SegmentId(number.to_bytes(16))) for number in range(1000))
        for topic in topics:
            for segment in segments:
                for name in names:
                    yield ObjectInfo(f"{topic}_0/{segment}/{'a' * 32}/{name}", 1, LATER_MS)


def test_memory_does_not_grow_with_the_listing(tmp_path: Path, metadata: LocalMetadata) -> None:
    store = VastStore(tmp_path)
    tracemalloc.start()
    try:
        report = collect(store, metadata)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.seen.objects == 200_000
    assert peak_bytes < 2_000_000  # the listing alone would be more than 40 MB
