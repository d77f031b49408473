"""Takes snapshots of what a replica hosts: every so often, when it stops, and when asked to.

Where they are kept is the store's business, what they hold the codec's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tiergate_client.clock import Clock, system_clock
from tiergate_client.errors import TiergateError
from tiergate_server.metadata.hosted_partition import HostedPartition
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.snapshot import PartitionSnapshot, capture_in_steps
from tiergate_server.metadata.snapshot_codec import SnapshotHeader, encode
from tiergate_server.metadata.snapshot_store import SnapshotStore

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    location: str
    size_bytes: int


class Snapshotter:
    """Snapshots of one replica, one at a time."""

    def __init__(
        self,
        follower: LogFollower,
        store: SnapshotStore,
        *,
        mirror: SnapshotStore | None = None,
        place: str = "",
        clock: Clock = system_clock,
    ) -> None:
        self._follower = follower
        self._store = store
        self._mirror = mirror
        self._place = place
        self._clock = clock
        self._saved_offsets: dict[int, int] = {}
        self._taking = asyncio.Lock()

    async def run(self, interval_s: float) -> None:
        """Takes one every so often, if anything was applied since the last."""
        while True:
            await asyncio.sleep(interval_s)
            await self.take_if_changed()

    async def take_if_changed(self) -> None:
        if self._offsets() != self._saved_offsets:
            with suppress(TiergateError):
                await self.take()

    async def take(self) -> SavedSnapshot:
        """Takes one, durable when it returns. Raises StorageUnavailable."""
        async with self._taking:
            partitions = [
                await self._capture(partition)
                for partition in list(self._follower.hosted.values())
                if partition.progress.is_ready and partition.progress.applied >= 0
            ]
            try:
                saved = await asyncio.to_thread(self._save, partitions)
            except TiergateError as trouble:
                _logger.warning("no snapshot was saved: %s", trouble.message)
                raise
            self._saved_offsets = {partition.number: partition.applied for partition in partitions}
            _logger.info("saved a snapshot of %d metadata partitions as %s", len(partitions), saved.location)
            return saved

    async def _capture(self, partition: HostedPartition) -> PartitionSnapshot:
        async with self._follower.applying:
            steps = capture_in_steps(
                partition.number,
                applied=partition.progress.applied,
                leader_epoch=partition.leader_epoch,
                state=partition.state,
            )
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    captured: PartitionSnapshot = done.value
                    return captured
                await asyncio.sleep(0)

    def _save(self, partitions: Sequence[PartitionSnapshot]) -> SavedSnapshot:
        log = self._follower.log
        header = SnapshotHeader(log.log_id, log.partition_count, self._clock())
        size_bytes = 0

        def counted() -> Iterator[bytes]:
            nonlocal size_bytes
            for piece in encode(header, partitions):
                size_bytes += len(piece)
                yield piece

        key = self._store.save(log.log_id, counted())
        if self._mirror is not None:
            self._mirror.save(log.log_id, encode(header, partitions))
        return SavedSnapshot(f"{self._place}{key}", size_bytes)

    def _offsets(self) -> dict[int, int]:
        return {
            number: partition.progress.applied
            for number, partition in self._follower.hosted.items()
            if partition.progress.is_ready and partition.progress.applied >= 0
        }
