from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.metadata.snapshot_scenarios import HEADER, LOG_ID, PARTITIONS, encoded, small_partition, small_state

from support.metadata_answers import answers
from tiergate_client.errors import StorageUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.metadata.snapshot import MetadataSnapshot
from tiergate_server.metadata.snapshot_store import SnapshotStore
from tiergate_server.segments.object_store import ObjectInfo

OTHER_LOG_ID = LogId(b"M" * 16)


class StoppedClock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class UnreachableStore(FilesystemStore):
    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        raise StorageUnavailable(f"cannot list {prefix} behind {after!r}")


class UndeletableStore(FilesystemStore):
    def delete(self, key: str) -> None:
        raise StorageUnavailable(f"cannot delete {key}")


@pytest.fixture
def objects(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def snapshots(objects: FilesystemStore, clock: StoppedClock) -> SnapshotStore:
    return SnapshotStore(objects, clock=clock)


def file(created_at_ms: int, log_id: LogId = LOG_ID) -> list[bytes]:
    content = encoded(small_partition(), header=replace(HEADER, created_at_ms=created_at_ms, log_id=log_id))
    return [content[:100], content[100:]]


def keys(objects: FilesystemStore) -> list[str]:
    return sorted(info.key for info in objects.list("snapshots"))


def damage(objects: FilesystemStore, key: str) -> None:
    content = bytearray(objects.get(key))
    content[len(content) // 2] ^= 1
    objects.delete(key)
    objects.put_if_absent(key, bytes(content))


def newest(snapshots: SnapshotStore) -> MetadataSnapshot | None:
    return snapshots.newest(LOG_ID, 50)


def created_at_ms(snapshot: MetadataSnapshot | None) -> int:
    assert snapshot is not None
    return snapshot.created_at_ms


def test_nothing_was_saved_yet(snapshots: SnapshotStore) -> None:
    assert newest(snapshots) is None


def test_saved_snapshot_comes_back(snapshots: SnapshotStore, objects: FilesystemStore) -> None:
    key = snapshots.save(LOG_ID, file(5))
    assert keys(objects) == [key]
    assert key.startswith(f"snapshots/{LOG_ID}/001700000000000-")
    snapshot = newest(snapshots)
    assert snapshot is not None
    assert answers(snapshot.partitions[3].restore(), PARTITIONS) == answers(small_state(), PARTITIONS)


def test_newest_wins_and_the_one_before_stays(snapshots: SnapshotStore, objects: FilesystemStore) -> None:
    saved = [snapshots.save(LOG_ID, file(number)) for number in range(5)]
    assert keys(objects) == saved[-2:]
    assert created_at_ms(newest(snapshots)) == 4


def test_newest_is_the_last_one_saved_also_when_the_clock_was_set_back(
    snapshots: SnapshotStore, objects: FilesystemStore, clock: StoppedClock
) -> None:
    for number in range(3):
        snapshots.save(LOG_ID, file(number))
        clock.now_ms -= 60_000
    assert created_at_ms(newest(snapshots)) == 2
    assert len(keys(objects)) == 2


def test_damaged_newest_falls_back_to_the_one_before_with_one_warning(
    snapshots: SnapshotStore, objects: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots.save(LOG_ID, file(1))
    damaged = snapshots.save(LOG_ID, file(2))
    damage(objects, damaged)
    assert created_at_ms(newest(snapshots)) == 1
    (warning,) = caplog.messages
    assert damaged in warning
    assert "checksum" in warning


def test_nothing_is_answered_when_all_are_damaged(
    snapshots: SnapshotStore, objects: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        damage(objects, snapshots.save(LOG_ID, file(number)))
    assert newest(snapshots) is None
    assert len(caplog.messages) == 2


def test_other_partition_count_is_refused(snapshots: SnapshotStore, caplog: pytest.LogCaptureFixture) -> None:
    snapshots.save(LOG_ID, file(1))
    assert snapshots.newest(LOG_ID, 49) is None
    assert "had 50 partitions, this has 49" in caplog.text


def test_snapshots_of_other_logs_are_neither_read_nor_removed(
    snapshots: SnapshotStore, objects: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    other = snapshots.save(OTHER_LOG_ID, file(9, OTHER_LOG_ID))
    assert newest(snapshots) is None
    for number in range(4):
        snapshots.save(LOG_ID, file(number))
    assert other in keys(objects)
    assert created_at_ms(newest(snapshots)) == 3
    assert caplog.messages == []


def test_snapshot_that_lies_under_the_wrong_log_is_refused(
    snapshots: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots.save(LOG_ID, file(1, OTHER_LOG_ID))
    assert newest(snapshots) is None
    assert f"of the metadata log {OTHER_LOG_ID}" in caplog.text


def test_objects_that_are_no_snapshots_are_left_alone(
    snapshots: SnapshotStore, objects: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = [f"snapshots/{LOG_ID}/README", f"snapshots/{LOG_ID}/999999999999999-0123456789abcdef/below"]
    for key in foreign:
        objects.put_if_absent(key, b"hello")
    for number in range(4):
        snapshots.save(LOG_ID, file(number))
    assert created_at_ms(newest(snapshots)) == 3
    assert {*foreign} < {*keys(objects)}
    assert caplog.messages == []


def test_snapshot_whose_capture_fails_leaves_nothing_behind(snapshots: SnapshotStore, objects: FilesystemStore) -> None:
    saved = snapshots.save(LOG_ID, file(1))

    def failing() -> Iterator[bytes]:
        yield file(2)[0]
        raise RuntimeError("captured no more")

    with pytest.raises(RuntimeError, match="captured no more"):
        snapshots.save(LOG_ID, failing())
    assert keys(objects) == [saved]
    assert created_at_ms(newest(snapshots)) == 1


def test_store_out_of_reach_is_passed_on(tmp_path: Path) -> None:
    snapshots = SnapshotStore(UnreachableStore(tmp_path))
    with pytest.raises(StorageUnavailable):
        newest(snapshots)
    with pytest.raises(StorageUnavailable):
        snapshots.save(LOG_ID, file(1))


def test_old_snapshots_that_cannot_be_removed_do_not_fail_the_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots = SnapshotStore(UndeletableStore(tmp_path))
    for number in range(3):
        snapshots.save(LOG_ID, file(number))
    assert created_at_ms(newest(snapshots)) == 2
    assert "old snapshots stay" in caplog.text


def test_prefix_keeps_stores_apart(objects: FilesystemStore) -> None:
    SnapshotStore(objects, prefix="here").save(LOG_ID, file(1))
    assert SnapshotStore(objects, prefix="there").newest(LOG_ID, 50) is None
    assert created_at_ms(SnapshotStore(objects, prefix="here").newest(LOG_ID, 50)) == 1
