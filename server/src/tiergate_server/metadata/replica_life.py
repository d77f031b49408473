"""The life of a replica: reach the log, catch up, serve, and begin again when the log is lost.

The servers run from the first second; until there is a replica that can answer, the slot that they look into is empty
and says why. What the log is made of is decided by whoever opens it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tiergate_client.errors import TiergateError
from tiergate_server.metadata.event_log import MetadataEventLog
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.manager import MetadataManager
from tiergate_server.metadata.manager_slot import ManagerSlot
from tiergate_server.metadata.replica import MetadataReplica
from tiergate_server.metadata.snapshot import PartitionSnapshot
from tiergate_server.metadata.snapshot_store import SnapshotStore
from tiergate_server.metadata.snapshotter import Snapshotter
from tiergate_server.metadata.store_binding import ServedLog

_logger = logging.getLogger(__name__)

_REACH_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """What a replica is told by its configuration."""

    custom_metadata_bytes: int = 128
    history_events: int = 1000
    only_follows: bool = False
    assignment: Callable[[MetadataEventLog], Collection[int]] | None = None
    """The metadata partitions to host; None: all."""
    skip: Collection[tuple[int, int]] = ()
    snapshots: SnapshotStore | None = None
    snapshot_mirror: SnapshotStore | None = None
    """A second place that outlives this machine's disk: a replica on an empty one begins with what is there."""
    snapshots_place: str = ""
    """What the keys of the snapshots are relative to, for people who look for the file."""
    snapshot_interval_s: float = 300.0


class ReplicaLife:
    def __init__(
        self,
        open_log: Callable[[], MetadataEventLog],
        slot: ManagerSlot,
        settings: ReplicaSettings,
    ) -> None:
        self._open_log = open_log
        self._slot = slot
        self._settings = settings
        self.log: MetadataEventLog | None = None
        self.follower: LogFollower | None = None
        self.snapshotter: Snapshotter | None = None

    @property
    def served_log(self) -> ServedLog | None:
        """None while this replica cannot answer."""
        follower = self.follower
        if follower is None or not self._slot.is_filled:
            return None
        states = (hosted.state for hosted in follower.hosted.values())
        return ServedLog(
            follower.log.log_id,
            is_empty=not any(state.partitions_after(topic=None, after=None, limit=1) for state in states),
        )

    async def run(self) -> None:
        """Runs until it is cancelled; then a last snapshot is taken, and everything is closed."""
        while True:
            log = await self._reach()
            self.log = log
            try:
                why = await self._serve(log)
            except TiergateError as trouble:
                why = trouble.message
            finally:
                self.log = self.follower = self.snapshotter = None
                await asyncio.to_thread(log.close)
            self._lose(why or "the metadata log ended")
            await asyncio.sleep(_REACH_AGAIN_S)

    async def _reach(self) -> MetadataEventLog:
        while True:
            try:
                return await asyncio.to_thread(self._open_log)
            except TiergateError as trouble:
                self._lose(trouble.message)
                await asyncio.sleep(_REACH_AGAIN_S)

    async def _serve(self, log: MetadataEventLog) -> str:
        """Serves until the log ends by itself; returns why it did."""
        settings = self._settings
        follower = LogFollower(log, history_events=settings.history_events, skip=settings.skip)
        self.follower = follower
        snapshots = await asyncio.to_thread(_newest_snapshots, (settings.snapshots, settings.snapshot_mirror), log)
        assigned = None if settings.assignment is None else settings.assignment(log)
        periodic: asyncio.Task[None] | None = None
        try:
            await follower.start(assigned, snapshots=snapshots)
            del snapshots  # copied by now: a million segments would be in memory twice
            catching_up = asyncio.create_task(follower.wait_until_ready())
            await asyncio.wait((catching_up, follower.ended), return_when=asyncio.FIRST_COMPLETED)
            catching_up.cancel()
            if not follower.ended.done():
                if settings.snapshots is not None:
                    self.snapshotter = Snapshotter(
                        follower,
                        settings.snapshots,
                        mirror=settings.snapshot_mirror,
                        place=settings.snapshots_place,
                    )
                    periodic = asyncio.create_task(self.snapshotter.run(settings.snapshot_interval_s))
                self._slot.put(self._manager(follower))
            return await asyncio.shield(follower.ended)
        finally:
            self._slot.clear("this replica is stopping")
            if periodic is not None:
                periodic.cancel()
            if self.snapshotter is not None:
                await self.snapshotter.take_if_changed()
            await follower.close()

    def _manager(self, follower: LogFollower) -> MetadataManager:
        return MetadataManager(
            MetadataReplica(follower),
            custom_metadata_bytes=self._settings.custom_metadata_bytes,
            only_follows=self._settings.only_follows,
        )

    def _lose(self, why: str) -> None:
        _logger.warning("the metadata is not ready: %s", why)
        self._slot.clear(why)


def _newest_snapshots(stores: Sequence[SnapshotStore | None], log: MetadataEventLog) -> Mapping[int, PartitionSnapshot]:
    """What there is to begin with, in the first place that has one. Any doubt means that the log is replayed."""
    for store in stores:
        try:
            newest = None if store is None else store.newest(log.log_id, log.partition_count)
        except TiergateError as trouble:
            _logger.warning("snapshots cannot be read (%s): going on without them", trouble.message)
            continue
        if newest is not None:
            return newest.partitions
    return {}
