"""gc is stopped after every single operation: nothing in use is lost, and the next run removes all the garbage."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from support.forgetful_disk import ForgetfulDisk, PowerCut
from support.local_metadata import LocalMetadata
from support.planted_garbage import Plantation, stored_keys
from support.watched_store import WatchedStore
from tiergate_client.errors import StorageUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.segments.garbage_collection import GarbageCollection
from tiergate_server.segments.object_store import ObjectStore

LATER_MS = 2**50

Restart = Callable[[ForgetfulDisk], None]


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def metadata() -> Iterator[LocalMetadata]:
    log = MemoryEventLog()
    local = LocalMetadata(log)
    yield local
    local.close()
    log.close()


@pytest.fixture(scope="module")
def garden(metadata: LocalMetadata) -> tuple[ForgetfulDisk, Plantation]:
    """Only to be copied."""
    disk = ForgetfulDisk()
    disk.mkdir(Path("/data"))
    disk.fsync_directory(Path("/"))
    planted = Plantation(store_on(disk), metadata)
    planted.one_of_each_kind(LogId(b"l" * 16))
    disk.restart()  # what is lost here is lost of the scenario, too
    return disk, planted


def store_on(disk: ForgetfulDisk) -> FilesystemStore:
    return FilesystemStore(Path("/data/store"), disk=disk, clock=lambda: 0)


def collect(store: ObjectStore, metadata: LocalMetadata) -> None:
    GarbageCollection(store, metadata, before_ms=LATER_MS, deletes=True).run()


def test_scenario_outlives_a_restart(garden: tuple[ForgetfulDisk, Plantation]) -> None:
    disk, planted = garden
    assert stored_keys(store_on(disk)) == planted.kept | planted.garbage_keys


def test_nothing_is_lost_and_nothing_left_when_gc_is_stopped_after_every_store_operation(
    garden: tuple[ForgetfulDisk, Plantation], metadata: LocalMetadata
) -> None:
    def stop_at(last: int) -> Callable[[int], None]:
        def before(number: int) -> None:
            if number == last:
                raise Stopped

        return before

    original, scenario = garden
    last, is_stopped = 0, True
    while is_stopped:
        store = store_on(copy.deepcopy(original))
        planted = replace(scenario, store=store)
        is_stopped = False
        try:
            collect(WatchedStore(store, stop_at(last)), metadata)
        except Stopped:
            is_stopped = True
        assert planted.kept <= stored_keys(store), f"stopped before operation {last}"
        collect(store, metadata)
        planted.assert_only_the_garbage_is_gone()
        last += 1
    assert last > 20


def forgetting(disk: ForgetfulDisk) -> None:
    disk.restart()


def killed_only(disk: ForgetfulDisk) -> None:
    disk.restart_process()


def surviving_by_chance(disk: ForgetfulDisk) -> None:
    disk.restart(survivors=random.Random(0))


@pytest.mark.parametrize("restart", [forgetting, killed_only, surviving_by_chance])
def test_nothing_is_lost_and_nothing_left_when_the_power_goes_at_every_disk_operation(
    garden: tuple[ForgetfulDisk, Plantation], metadata: LocalMetadata, restart: Restart
) -> None:
    original, scenario = garden
    operations, is_cut = 0, True
    while is_cut:
        disk = copy.deepcopy(original)
        store = store_on(disk)
        disk.cut_after(operations)
        is_cut = False
        try:
            collect(store, metadata)
        except PowerCut:
            is_cut = True
        restart(disk)
        planted = replace(scenario, store=store_on(disk))
        assert planted.kept <= stored_keys(planted.store), f"cut after {operations} operations"
        for root in {key.rpartition("/")[0] for key in planted.garbage_keys if key.endswith("/manifest.json")}:
            assert_whole_or_unreadable(planted, root)
        collect(planted.store, metadata)
        planted.assert_only_the_garbage_is_gone()
        operations += 1
    assert operations > 30


def assert_whole_or_unreadable(planted: Plantation, root: str) -> None:
    """As long as the manifest is there, so is everything that it names."""
    there = {key for key in stored_keys(planted.store) if key.startswith(f"{root}/")}
    planted_there = {key for key in planted.garbage_keys if key.startswith(f"{root}/")}
    assert f"{root}/manifest.json" not in there or there == planted_there


def test_run_that_fails_at_any_disk_operation_is_finished_by_the_next(
    garden: tuple[ForgetfulDisk, Plantation], metadata: LocalMetadata
) -> None:
    original, scenario = garden
    for operations in range(0, 60, 3):
        disk = copy.deepcopy(original)
        store = store_on(disk)
        disk.fail_at(operations)
        with suppress(StorageUnavailable):
            collect(store, metadata)
        planted = replace(scenario, store=store)
        planted.assert_nothing_is_lost()
        collect(store, metadata)
        planted.assert_only_the_garbage_is_gone()
