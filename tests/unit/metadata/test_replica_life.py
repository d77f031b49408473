"""A replica's life: reaching the log, losing it, and beginning again, while calls look into the slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from tiergate_client.errors import MetadataLogUnavailable, MetadataNotReady
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.metadata.event_log import EventLogRefused, MetadataEventLog
from tiergate_server.metadata.manager_slot import ManagerSlot
from tiergate_server.metadata.replica import CallTerms
from tiergate_server.metadata.replica_life import ReplicaLife, ReplicaSettings
from tiergate_server.metadata.snapshot_store import SnapshotStore

TERMS = CallTerms(timeout_s=10)


async def filled(slot: ManagerSlot) -> None:
    while not slot.is_filled:
        await slot.changed()


async def end(living: asyncio.Task[None]) -> None:
    living.cancel()
    with suppress(asyncio.CancelledError):
        await living


def living_on(open_log: Callable[[], MetadataEventLog], slot: ManagerSlot, **settings: object) -> asyncio.Task[None]:
    return asyncio.create_task(ReplicaLife(open_log, slot, ReplicaSettings(**settings)).run())  # type: ignore[arg-type]


def test_log_that_is_out_of_reach_is_told_until_it_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiergate_server.metadata.replica_life._REACH_AGAIN_S", 0.01)

    async def scenario() -> None:
        slot = ManagerSlot()
        with pytest.raises(MetadataNotReady, match="starting"):
            slot.get()
        tries = 0

        def open_log() -> MetadataEventLog:
            nonlocal tries
            tries += 1
            if tries < 4:
                raise MetadataLogUnavailable("the broker is asleep")
            return MemoryEventLog()

        living = living_on(open_log, slot)
        await slot.changed()
        with pytest.raises(MetadataNotReady, match="the broker is asleep"):
            slot.get()
        await filled(slot)
        await slot.get().add_segment(new_segment(new_partition(), 0, 9), TERMS)
        await end(living)
        with pytest.raises(MetadataNotReady):
            slot.get()

    asyncio.run(scenario())


def test_log_that_ends_by_itself_is_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiergate_server.metadata.replica_life._REACH_AGAIN_S", 0.01)

    async def scenario() -> None:
        slot = ManagerSlot()
        logs: list[MemoryEventLog] = []

        def open_log() -> MetadataEventLog:
            logs.append(MemoryEventLog())
            return logs[-1]

        living = living_on(open_log, slot)
        await filled(slot)
        first = slot.get()
        logs[0].close()
        while len(logs) < 2 or not slot.is_filled:
            await slot.changed()
        assert slot.get() is not first
        await end(living)

    asyncio.run(scenario())


def test_log_that_never_will_open_ends_the_life() -> None:
    async def scenario() -> None:
        def open_log() -> MetadataEventLog:
            raise EventLogRefused("this is not a log")

        with pytest.raises(EventLogRefused):
            await living_on(open_log, ManagerSlot())

    asyncio.run(scenario())


def test_snapshot_is_taken_at_the_end_and_used_at_the_next_start(tmp_path: Path) -> None:
    async def live(expected_replay: int, segments: int) -> None:
        slot = ManagerSlot()
        store = SnapshotStore(FilesystemStore(tmp_path / "snapshots"))
        living = living_on(lambda: EmbeddedEventLog(tmp_path / "metadata.db"), slot, snapshots=store)
        await filled(slot)
        manager = slot.get()
        assert sum(len(partition.history) for partition in manager.replica.hosted.values()) == expected_replay
        for _ in range(segments):
            await manager.add_segment(new_segment(new_partition(), 0, 9), TERMS)
        await end(living)

    asyncio.run(live(0, 12))
    asyncio.run(live(0, 3))
    for snapshot in (tmp_path / "snapshots").rglob("*-*"):
        if snapshot.is_file():
            snapshot.unlink()
    asyncio.run(live(15, 0))


def test_replica_on_an_empty_disk_begins_with_the_mirrored_snapshot(tmp_path: Path) -> None:
    async def live(local: str, expected_replay: int, segments: int) -> None:
        slot = ManagerSlot()
        living = living_on(
            lambda: EmbeddedEventLog(tmp_path / "metadata.db"),
            slot,
            snapshots=SnapshotStore(FilesystemStore(tmp_path / local)),
            snapshot_mirror=SnapshotStore(FilesystemStore(tmp_path / "bucket"), prefix="snapshots"),
        )
        await filled(slot)
        manager = slot.get()
        assert sum(len(partition.history) for partition in manager.replica.hosted.values()) == expected_replay
        for _ in range(segments):
            await manager.add_segment(new_segment(new_partition(), 0, 9), TERMS)
        await end(living)

    asyncio.run(live("first-disk", 0, 5))
    asyncio.run(live("empty-disk", 0, 0))


def test_replica_hosts_what_it_is_assigned() -> None:
    async def scenario() -> None:
        slot = ManagerSlot()
        living = living_on(MemoryEventLog, slot, assignment=lambda _log: [3, 4])
        await filled(slot)
        assert list(slot.get().replica.hosted) == [3, 4]
        await end(living)

    asyncio.run(scenario())
