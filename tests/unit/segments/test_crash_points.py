"""Copy and delete are stopped after every single disk operation: a segment is whole or absent, and a retry succeeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from crc32c import crc32c

from support.forgetful_disk import DiskThatIgnoresDirectoryFsync, DiskThatIgnoresFsync, ForgetfulDisk, PowerCut
from support.segments import make_data, make_metadata, read_back
from tiergate_client.errors import SegmentConflict, SegmentNotFound, StorageUnavailable, TiergateError
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata(topic_id=TopicId(b"t" * 16), segment_id=SegmentId(b"s" * 16))
DATA = make_data(log_bytes=2500, with_txn_index=True)

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


def storage_on(disk: ForgetfulDisk) -> SegmentStorage:
    return SegmentStorage(FilesystemStore(Path("/data/store"), disk=disk, clock=lambda: 0), clock=lambda: 0)


def state_of(storage: SegmentStorage) -> str:
    try:
        return "whole" if read_back(storage, METADATA) == DATA else "other bytes"
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


@pytest.mark.parametrize("restart", RESTARTS, ids=lambda restart: restart.__name__)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_segment_is_whole_or_absent_after_a_stop_at_every_operation(scenario: Scenario, restart: Restart) -> None:
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
