"""Copy, delete and abort are stopped after every single disk operation: a segment is whole or absent, a retry succeeds.

What is left behind, gc removes. That gc itself may be stopped is tested beside it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from crc32c import crc32c

from support.forgetful_disk import DiskThatIgnoresDirectoryFsync, DiskThatIgnoresFsync, ForgetfulDisk, PowerCut
from support.local_metadata import LocalMetadata
from support.segments import breaking, make_data, make_metadata, read_back
from tiergate_client.errors import SegmentConflict, SegmentNotFound, StorageUnavailable, TiergateError
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.garbage_collection import GarbageCollection
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata(topic_id=TopicId(b"t" * 16), segment_id=SegmentId(b"s" * 16))
DATA = make_data(log_bytes=2500, with_txn_index=True)
# Just large enough for a partial upload.
LARGE = make_data(log_bytes=BLOCK_BYTES + 1, index_bytes=8, with_producer_snapshot=False)
LATER_MS = 2**50

Act = Callable[[SegmentStorage], object]
Restart = Callable[[ForgetfulDisk], None]


def forgetting(disk: ForgetfulDisk) -> None:
    disk.restart()


def killed_only(disk: ForgetfulDisk) -> None:
    disk.restart_process()


def surviving_by_chance(seed: int) -> Restart:
    def restart(disk: ForgetfulDisk) -> None:
        disk.restart(survivors=random.Random(seed))

    restart.__name__ = f"surviving_by_chance_{seed}"
    return restart


RESTARTS = [forgetting, killed_only, *(surviving_by_chance(seed) for seed in range(6))]


def copy(storage: SegmentStorage) -> None:
    storage.copy_segment(METADATA, DATA)


def copy_large(storage: SegmentStorage) -> None:
    storage.copy_segment(METADATA, LARGE)


def half_a_large_copy(storage: SegmentStorage) -> None:
    with pytest.raises(OSError, match="the disk broke here"):
        storage.copy_segment(METADATA, breaking(LARGE, BLOCK_BYTES, wait=lambda: None))


def abort(storage: SegmentStorage) -> None:
    assert storage.abort_upload(METADATA) is False


def delete(storage: SegmentStorage) -> None:
    storage.delete_segment(METADATA)


def nothing(storage: SegmentStorage) -> None:
    pass


def half_a_copy(storage: SegmentStorage) -> None:
    session = storage.begin_copy(DATA.manifest(METADATA))
    assert isinstance(session, CopySession)
    assert isinstance(DATA.time_index, bytes)
    session.write(SegmentFile.TIME_INDEX, 0, DATA.time_index, crc32c(DATA.time_index))


@dataclass(frozen=True)
class Scenario:
    """What is there, what is stopped on its way, and what must be there when it was acknowledged."""

    before: Act
    act: Act
    acknowledged: str
    unacknowledged: frozenset[str] = frozenset({"whole", "absent"})


COPY = Scenario(nothing, copy, "whole")
DELETE = Scenario(copy, delete, "absent")
DELETE_OF_HALF_A_COPY = Scenario(half_a_copy, delete, "absent", frozenset({"absent"}))
COPY_AFTER_HALF_A_COPY = Scenario(half_a_copy, copy, "whole")
COPY_OF_WHAT_IS_THERE = Scenario(copy, copy, "whole", frozenset({"whole"}))
SCENARIOS = {
    "copy": COPY,
    "delete": DELETE,
    "delete_of_half_a_copy": DELETE_OF_HALF_A_COPY,
    "copy_after_half_a_copy": COPY_AFTER_HALF_A_COPY,
    "copy_of_what_is_there": COPY_OF_WHAT_IS_THERE,
}

LARGE_SCENARIOS = {
    "large_copy": Scenario(nothing, copy_large, "whole"),
    "continued_copy": Scenario(half_a_large_copy, copy_large, "whole"),
    "delete_of_half_a_large_copy": Scenario(half_a_large_copy, delete, "absent", frozenset({"absent"})),
    "abort_of_half_a_large_copy": Scenario(half_a_large_copy, abort, "absent", frozenset({"absent"})),
}


def storage_on(disk: ForgetfulDisk) -> SegmentStorage:
    return SegmentStorage(FilesystemStore(Path("/data/store"), disk=disk, clock=lambda: 0), clock=lambda: 0)


def state_of(storage: SegmentStorage) -> str:
    try:
        return "whole" if read_back(storage, METADATA) in (DATA, LARGE) else "other bytes"
    except SegmentNotFound:
        return "absent"
    except TiergateError as error:
        return f"broken: {error}"


def prepared(disk: ForgetfulDisk, scenario: Scenario) -> SegmentStorage:
    disk.mkdir(Path("/data"))
    disk.fsync_directory(Path("/"))
    storage = storage_on(disk)
    scenario.before(storage)
    return storage


def count_operations(scenario: Scenario) -> int:
    disk = ForgetfulDisk()
    storage = prepared(disk, scenario)
    before = disk.operations
    scenario.act(storage)
    return disk.operations - before


def is_acknowledged(storage: SegmentStorage, act: Act) -> bool:
    try:
        act(storage)
    except PowerCut:
        return False
    return True


def check_every_crash_point(scenario: Scenario, restart: Restart, kind: type[ForgetfulDisk] = ForgetfulDisk) -> None:
    # One more than there are: the last one is acknowledged first.
    for operations in range(count_operations(scenario) + 2):
        disk = kind()
        storage = prepared(disk, scenario)
        disk.cut_after(operations)
        acknowledged = is_acknowledged(storage, scenario.act)
        restart(disk)
        allowed = {scenario.acknowledged} if acknowledged else scenario.unacknowledged
        assert state_of(storage_on(disk)) in allowed, f"after {operations} operations, {acknowledged=}"
        scenario.act(storage_on(disk))
        disk.restart()
        assert state_of(storage_on(disk)) == scenario.acknowledged, f"retry after {operations} operations"


@pytest.fixture(scope="module")
def no_metadata() -> Iterator[LocalMetadata]:
    """Of no segment: to gc everything is garbage."""
    log = MemoryEventLog()
    with closing(log), closing(LocalMetadata(log)) as metadata:
        yield metadata


def files_below(disk: ForgetfulDisk, directory: Path) -> list[str]:
    return [
        found
        for entry in disk.entries(directory)
        for found in (files_below(disk, directory / entry.name) if entry.is_directory else [entry.name])
    ]


@pytest.mark.parametrize("retries", [True, False], ids=["after_a_retry", "at_once"])
@pytest.mark.parametrize("restart", [forgetting, killed_only], ids=lambda restart: restart.__name__)
@pytest.mark.parametrize("scenario", (SCENARIOS | LARGE_SCENARIOS).values(), ids=SCENARIOS | LARGE_SCENARIOS)
def test_gc_leaves_nothing_behind_after_a_stop_at_every_operation(
    scenario: Scenario, restart: Restart, retries: bool, no_metadata: LocalMetadata
) -> None:
    for operations in range(0, count_operations(scenario), 2 - retries):
        disk = ForgetfulDisk()
        storage = prepared(disk, scenario)
        disk.cut_after(operations)
        assert not is_acknowledged(storage, scenario.act)
        restart(disk)
        if retries:
            scenario.act(storage_on(disk))
        GarbageCollection(storage_on(disk)._store, no_metadata, before_ms=LATER_MS, deletes=True).run()
        assert files_below(disk, Path("/data")) == [], f"after {operations} operations"


@pytest.mark.parametrize("restart", RESTARTS, ids=lambda restart: restart.__name__)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_segment_is_whole_or_absent_after_a_stop_at_every_operation(scenario: Scenario, restart: Restart) -> None:
    check_every_crash_point(scenario, restart)


@pytest.mark.parametrize("restart", RESTARTS[:3], ids=lambda restart: restart.__name__)
@pytest.mark.parametrize("scenario", LARGE_SCENARIOS.values(), ids=LARGE_SCENARIOS.keys())
def test_large_segment_is_whole_or_absent_after_a_stop_at_every_operation(scenario: Scenario, restart: Restart) -> None:
    check_every_crash_point(scenario, restart)


@pytest.mark.nightly
@pytest.mark.parametrize("restart", [surviving_by_chance(seed) for seed in range(1, 30)])
@pytest.mark.parametrize("scenario", LARGE_SCENARIOS.values(), ids=LARGE_SCENARIOS.keys())
def test_large_segment_is_whole_or_absent_whatever_survives_a_stop(scenario: Scenario, restart: Restart) -> None:
    check_every_crash_point(scenario, restart)


@pytest.mark.parametrize("kind", [DiskThatIgnoresFsync, DiskThatIgnoresDirectoryFsync])
def test_crash_points_are_found_wanting_on_a_disk_that_ignores_fsync(kind: type[ForgetfulDisk]) -> None:
    with pytest.raises(AssertionError, match=r"acknowledged=True|retry after"):
        check_every_crash_point(COPY, forgetting, kind)


def test_delete_crash_points_are_found_wanting_on_a_disk_that_ignores_directory_fsync() -> None:
    class DiskThatLearnsToLie(ForgetfulDisk):
        lies = False

        def fsync_directory(self, path: Path) -> None:
            if not self.lies:
                super().fsync_directory(path)

    disk = DiskThatLearnsToLie()
    storage = prepared(disk, DELETE)
    disk.lies = True
    delete(storage)
    disk.restart()
    assert state_of(storage_on(disk)) == "whole"


@pytest.mark.parametrize("restart", [forgetting, killed_only], ids=lambda restart: restart.__name__)
def test_copy_stopped_at_every_operation_succeeds_after_a_copy_stopped_at_any(restart: Restart) -> None:
    for first_stop in range(0, count_operations(COPY), 7):

        def stopped_copy(storage: SegmentStorage, first_stop: int = first_stop) -> None:
            disk = storage._store._disk  # type: ignore[attr-defined]
            disk.cut_after(first_stop)
            assert not is_acknowledged(storage, copy)
            restart(disk)

        check_every_crash_point(Scenario(stopped_copy, copy, "whole"), restart)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_segment_is_whole_or_absent_when_any_operation_fails(scenario: Scenario) -> None:
    for operations in range(count_operations(scenario)):
        disk = ForgetfulDisk()
        storage = prepared(disk, scenario)
        disk.fail_at(operations)
        try:
            scenario.act(storage)
            allowed = frozenset({scenario.acknowledged})
        except StorageUnavailable:
            allowed = scenario.unacknowledged
        disk.restart()
        assert state_of(storage_on(disk)) in allowed, f"failure at {operations}"
        scenario.act(storage_on(disk))
        assert state_of(storage_on(disk)) == scenario.acknowledged


@pytest.mark.parametrize("scenario", [COPY, LARGE_SCENARIOS["large_copy"]], ids=["copy", "large_copy"])
@pytest.mark.parametrize("restart", [forgetting, killed_only], ids=lambda restart: restart.__name__)
def test_delete_leaves_a_tombstone_at_most_of_a_copy_that_was_stopped_at_any_operation(
    scenario: Scenario, restart: Restart
) -> None:
    for operations in range(count_operations(scenario)):
        disk = ForgetfulDisk()
        storage = prepared(disk, scenario)
        disk.cut_after(operations)
        assert not is_acknowledged(storage, scenario.act)
        restart(disk)
        delete(storage_on(disk))
        store = storage_on(disk)._store
        assert {stored.key for stored in store.list("")} <= {SegmentKeys.of(METADATA).manifest}
        assert list(store.list_partials(SegmentKeys.of(METADATA).root)) == []


@pytest.mark.parametrize("before", [copy, half_a_copy])
def test_deleted_segment_stays_deleted_after_a_power_cut(before: Act) -> None:
    disk = ForgetfulDisk()
    delete(prepared(disk, Scenario(before, delete, "absent")))
    disk.restart()
    with pytest.raises(SegmentConflict, match="was deleted"):
        copy(storage_on(disk))


def test_every_flipped_bit_of_every_stored_file_is_found_on_read() -> None:
    small = make_data(log_bytes=40, index_bytes=8, with_txn_index=True)
    disk = ForgetfulDisk()
    storage = prepared(disk, COPY)
    storage.copy_segment(METADATA, small)
    stored = list(storage._store.list(f"{METADATA.partition.topic_id}_0"))
    assert len(stored) == 7
    for entry in stored:
        path = Path("/data/store") / entry.key
        for bit in range(entry.size_bytes * 8):
            disk.flip_bit(path, bit)
            assert state_of(storage).startswith("broken: the stored "), f"bit {bit} of {entry.key}"
            disk.flip_bit(path, bit)
    assert read_back(storage, METADATA) == small
