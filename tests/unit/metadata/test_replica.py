"""The replica on its event loop: tokens, verdicts, assignment, damage, and what is remembered while publishing."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.in_process_log import GatedLog
from tiergate_client.errors import (
    CommitStateUnknown,
    LogChanged,
    MetadataCorrupt,
    MetadataLogUnavailable,
    MetadataNotReady,
    NotHosted,
    OffsetOutOfRange,
    ReadOnly,
    SegmentNotFound,
)
from tiergate_client.ids import LogId
from tiergate_client.values import ConsistencyToken, SegmentState, TopicIdPartition
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.metadata.event_codec import encode_event
from tiergate_server.metadata.event_log import MetadataEventLog
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.manager import MetadataManager
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.metadata.replica import CallTerms, MetadataReplica, as_ranges
from tiergate_server.metadata.snapshot import capture
from tiergate_server.metadata.snapshot_store import SnapshotStore
from tiergate_server.metadata.snapshotter import Snapshotter
from tiergate_server.metadata.state import MetadataState

TERMS = CallTerms(timeout_s=10)


def home_of(partition: TopicIdPartition, log: MetadataEventLog) -> int:
    return metadata_partition(partition, partition_count=log.partition_count)


async def started(log: MetadataEventLog, **options: Any) -> MetadataManager:
    follower = LogFollower(log, **options)
    await follower.start()
    await follower.wait_until_ready()
    return MetadataManager(MetadataReplica(follower))


def on_a_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def test_replica_behind_a_token_waits_then_answers() -> None:
    async def scenario() -> None:
        log = GatedLog()
        manager = await started(log)
        segment = new_segment(new_partition(), 0, 9)
        home = home_of(segment.partition, log)
        log.hold_delivery()
        offset = log.publish(home, encode_event(segment)).result(5)
        token = ConsistencyToken(log.log_id, {home: offset})
        asked = asyncio.create_task(
            manager.get_segment(segment.segment_id, partition=segment.partition, terms=CallTerms(token, 10))
        )
        await asyncio.sleep(0.1)
        assert not asked.done()
        log.release_delivery()
        found, _ = await asked
        assert found == segment
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_replica_that_stays_behind_a_token_is_not_ready_within_half_the_deadline() -> None:
    async def scenario() -> None:
        log = GatedLog()
        manager = await started(log)
        partition = new_partition()
        home = home_of(partition, log)
        log.hold_delivery()
        offset = log.publish(home, encode_event(new_segment(partition, 0, 9))).result(5)
        begin = time.monotonic()
        with pytest.raises(MetadataNotReady) as refusal:
            await manager.find_segment(
                partition, leader_epoch=0, offset=0, terms=CallTerms(ConsistencyToken(log.log_id, {home: offset}), 0.6)
            )
        assert 0.25 < time.monotonic() - begin < 0.55
        assert refusal.value.retry_after_ms
        log.release_delivery()
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_token_of_another_log_or_beyond_the_end_is_log_changed() -> None:
    async def scenario() -> None:
        log = MemoryEventLog()
        manager = await started(log)
        partition = new_partition()
        for token in (
            ConsistencyToken(LogId.random(), {}),
            ConsistencyToken(log.log_id, {home_of(partition, log): 0}),
        ):
            with pytest.raises(LogChanged):
                await manager.find_segment(partition, leader_epoch=0, offset=0, terms=CallTerms(token, 10))
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_event_that_is_applied_too_late_is_commit_state_unknown_and_applies_later() -> None:
    async def scenario() -> None:
        log = GatedLog()
        manager = await started(log)
        segment = new_segment(new_partition(), 0, 9)
        log.hold_delivery()
        with pytest.raises(CommitStateUnknown):
            await manager.add_segment(segment, CallTerms(timeout_s=0.2))
        repeated = asyncio.create_task(manager.add_segment(segment, TERMS))
        await asyncio.sleep(0.1)
        assert not repeated.done(), "the repeat waits for what became of the first"
        log.release_delivery()
        await repeated
        assert log.end_offsets([home_of(segment.partition, log)]) == {home_of(segment.partition, log): 1}
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_event_that_the_log_does_not_take_in_time_is_never_appended() -> None:
    async def scenario() -> None:
        log = GatedLog()
        manager = await started(log)
        segment = new_segment(new_partition(), 0, 9)
        log.hold_publishing()
        with pytest.raises(MetadataLogUnavailable):
            await manager.add_segment(segment, CallTerms(timeout_s=0.2))
        with pytest.raises(MetadataLogUnavailable):
            await manager.add_segment(segment, CallTerms(timeout_s=0))
        log.release_publishing()
        with pytest.raises(SegmentNotFound):
            await manager.get_segment(segment.segment_id, partition=None, terms=TERMS)
        assert set(log.end_offsets(range(50)).values()) == {0}
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_verdicts_are_forgotten_while_publishers_overlap_for_ever() -> None:
    async def scenario() -> None:
        log = MemoryEventLog(partition_count=1)
        manager = await started(log)
        partition = new_partition()
        stop = time.monotonic() + 1

        async def write_on() -> None:
            while time.monotonic() < stop:
                await manager.add_segment(new_segment(partition, 0, 9), TERMS)

        await asyncio.gather(*(write_on() for _ in range(8)))
        progress = manager.replica.hosted[0].progress
        assert progress.applied > 100
        assert len(progress._verdicts) < 50
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_corrupt_record_stops_its_partition_alone_and_skip_goes_past_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = EmbeddedEventLog(tmp_path / "metadata.db")
        manager = await started(log)
        broken = new_segment(new_partition(), 0, 9)
        home = home_of(broken.partition, log)
        others = (new_segment(new_partition(), 0, 9) for _ in itertools.count())
        fine = next(segment for segment in others if home_of(segment.partition, log) != home)
        await manager.add_segment(broken, TERMS)
        await manager.add_segment(fine, TERMS)
        log.publish(home, b"").result(5)
        log.publish(home, b"\x01\x00\x00\xff\xff").result(5)
        corrupt_at = 2
        finish = broken.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1)
        log.publish(home, encode_event(finish)).result(5)
        await manager.replica.hosted[home].progress.reach(3, timeout_s=10)
        with pytest.raises(MetadataCorrupt) as refusal:
            await manager.get_segment(broken.segment_id, partition=broken.partition, terms=TERMS)
        assert refusal.value.details == {"partition": str(home), "offset": str(corrupt_at)}
        assert (await manager.get_segment(fine.segment_id, partition=fine.partition, terms=TERMS))[0] == fine
        listed, _ = await manager.list_partitions(topic=None, after=None, limit=10, terms=TERMS)
        assert {summary.partition: summary.ready for summary in listed}[fine.partition]
        assert manager.is_partial
        await manager.replica.follower.close()

        again = await started(log, skip=[(home, corrupt_at)])
        found, _ = await again.get_segment(broken.segment_id, partition=broken.partition, terms=TERMS)
        assert found.state is SegmentState.COPY_FINISHED
        assert again.replica.hosted[home].skipped_events == 2
        await again.replica.follower.close()
        log.close()

    on_a_loop(scenario)


def test_assignment_changes_what_is_served_and_nothing_stale_comes_back() -> None:
    async def scenario() -> None:
        log = MemoryEventLog(partition_count=2)
        writer, reader = await started(log), await started(log)
        segments = [new_segment(new_partition(), 0, 9) for _ in range(20)]
        for segment in segments:
            await writer.add_segment(segment, TERMS)
        by_home = {home: [s for s in segments if home_of(s.partition, log) == home] for home in (0, 1)}
        assert all(by_home.values())
        await reader.replica.follower.assign([1])
        with pytest.raises(NotHosted) as refusal:
            await reader.find_segment(by_home[0][0].partition, leader_epoch=0, offset=0, terms=TERMS)
        assert refusal.value.details == {"hosted": "1"}
        with pytest.raises(NotHosted):
            await reader.get_segment(by_home[0][0].segment_id, partition=None, terms=TERMS)
        assert reader.is_partial
        gone = by_home[0][0]
        for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
            await writer.update_segment(gone.step(state, event_timestamp_ms=1), TERMS)
        await reader.replica.follower.assign([0, 1])
        await reader.replica.follower.wait_until_ready()
        with pytest.raises(SegmentNotFound):
            await reader.get_segment(gone.segment_id, partition=None, terms=TERMS)
        for segment in (*by_home[0][1:], *by_home[1]):
            assert (await reader.get_segment(segment.segment_id, partition=None, terms=TERMS))[0] == segment
        assert not reader.is_partial
        for manager in (writer, reader):
            await manager.replica.follower.close()

    on_a_loop(scenario)


def test_state_that_the_log_lost_is_discarded_and_replayed() -> None:
    async def scenario() -> None:
        log = GatedLog()
        manager = await started(log)
        partition = new_partition()
        home = home_of(partition, log)
        gone, kept = new_segment(partition, 0, 9), new_segment(partition, 10, 19)
        await manager.add_segment(gone, TERMS)
        await manager.add_segment(kept, TERMS)
        before = manager.replica.hosted[home]
        log.lose(home, begin=1)
        await before.progress.reach(10, timeout_s=10)
        while manager.replica.hosted[home] is before or not manager.replica.follower.is_ready:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await manager.get_segment(kept.segment_id, partition=partition, terms=TERMS))[0] == kept
        with pytest.raises(SegmentNotFound):
            await manager.get_segment(gone.segment_id, partition=partition, terms=TERMS)
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_watcher_with_a_token_older_than_the_history_is_out_of_range() -> None:
    async def scenario() -> None:
        log = MemoryEventLog(partition_count=1)
        manager = await started(log, history_events=3)
        partition = new_partition()
        begin = manager.replica.token([0])
        for _ in range(5):
            await manager.add_segment(new_segment(partition, 0, 9), TERMS)
        with pytest.raises(OffsetOutOfRange) as refusal:
            await manager.watch(partition=partition, terms=CallTerms(begin, 10))
        assert refusal.value.details == {"earliest": "1", "latest": "4"}
        recent = ConsistencyToken(log.log_id, {0: 1})
        watcher, _ = await manager.watch(partition=partition, terms=CallTerms(recent, 10))
        assert len(await watcher.take(timeout_s=1)) == 3
        await manager.replica.follower.close()

    on_a_loop(scenario)


def test_follower_refuses_to_write() -> None:
    async def scenario() -> None:
        log = MemoryEventLog()
        follower = LogFollower(log)
        await follower.start()
        await follower.wait_until_ready()
        manager = MetadataManager(MetadataReplica(follower), only_follows=True)
        segment = new_segment(new_partition(), 0, 9)
        for write in (
            manager.add_segment(segment, TERMS),
            manager.update_segment(segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1), TERMS),
        ):
            with pytest.raises(ReadOnly):
                await write
        await follower.close()

    on_a_loop(scenario)


def test_replica_goes_on_from_its_snapshot_and_replays_when_the_log_diverged(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = EmbeddedEventLog(tmp_path / "metadata.db")
        store = SnapshotStore(FilesystemStore(tmp_path / "snapshots"))
        first = await started(log)
        segments = [new_segment(new_partition(), 0, 9) for _ in range(30)]
        for segment in segments[:20]:
            await first.add_segment(segment, TERMS)
        await Snapshotter(first.replica.follower, store).take()
        for segment in segments[20:]:
            await first.add_segment(segment, TERMS)
        await first.replica.follower.close()

        newest = store.newest(log.log_id, log.partition_count)
        assert newest is not None
        follower = LogFollower(log)
        await follower.start(snapshots=newest.partitions)
        await follower.wait_until_ready()
        manager = MetadataManager(MetadataReplica(follower))
        for segment in segments:
            assert (await manager.get_segment(segment.segment_id, partition=None, terms=TERMS))[0] == segment
        replayed = sum(len(partition.history) for partition in follower.hosted.values())
        assert replayed == 10, "only what came after the snapshot"
        await follower.close()
        log.close()

    on_a_loop(scenario)


@pytest.mark.parametrize("ahead", [True, False], ids=["snapshot ahead of the log", "another epoch of the log"])
def test_snapshot_that_does_not_fit_the_log_is_replayed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead: bool
) -> None:
    async def scenario() -> None:
        log = MemoryEventLog(partition_count=1)
        manager = await started(log)
        kept = new_segment(new_partition(), 0, 9)
        await manager.add_segment(kept, TERMS)
        state = MetadataState()
        state.apply(new_segment(new_partition(), 0, 9))
        foreign = capture(0, applied=5 if ahead else 0, leader_epoch=-1 if ahead else 7, state=state)
        follower = LogFollower(log)
        await follower.start(snapshots={0: foreign})
        while not follower.is_ready:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        listed = follower.hosted[0].state.partitions_after(topic=None, after=None, limit=10)
        assert [partition for partition, _ in listed] == [kept.partition]
        for following in (manager.replica.follower, follower):
            await following.close()

    on_a_loop(scenario)
    assert sum("replaying it all" in record.message for record in caplog.records) == 1


def test_replica_is_ready_at_the_end_that_the_log_had_not_at_one_that_moves_on() -> None:
    async def scenario() -> None:
        log = MemoryEventLog(partition_count=1)
        partition = new_partition()
        for _ in range(50):
            log.publish(0, encode_event(new_segment(partition, 0, 9)))
        stop = threading.Event()

        def write_on() -> None:
            while not stop.is_set():
                log.publish(0, encode_event(new_segment(partition, 0, 9)))

        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            manager = await started(log)
            progress = manager.replica.hosted[0].progress
            assert 50 <= progress.ready_at <= log.end_offsets([0])[0]
        finally:
            stop.set()
            writer.join()
        await manager.replica.follower.close()

    on_a_loop(scenario)


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2), "0-2"), ((7, 0, 1, 2, 9, 10), "0-2,7,9-10")]
)
def test_ranges_read_as_people_write_them(numbers: Iterable[int], text: str) -> None:
    assert as_ranges(numbers) == text
