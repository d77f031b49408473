"""Follows the event log and applies what comes to the metadata partitions that are hosted here.

It runs on one event loop; only the thread that polls the log is its own, and that thread alone changes what is
subscribed, between two polls: so no record of a partition that was dropped can meet the partition hosted anew. Who may
be answered from what was applied is the replica's business.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_client.integers import INT64_MAX
from tiergate_client.values import ConsistencyToken, MetadataChange
from tiergate_server.metadata.event_log import EventStream, LogRecord, MetadataEventLog, PositionLost, StreamClosed
from tiergate_server.metadata.hosted_partition import Diverged, HostedPartition, SnapshotProof
from tiergate_server.metadata.snapshot import PartitionSnapshot
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.watches import Watches

_logger = logging.getLogger(__name__)

_READ_AGAIN_S = 0.2
_LONGEST_CHANGE_S = 30.0
# How soon a change of what is subscribed is made while the log is silent.
_POLL_S = 0.1
# Applying shares the loop with answering: after this long, others get their turn.
_SLICE_S = 0.002


class LogFollower:
    """The metadata partitions that are hosted here, as far as the log was applied. Created on its event loop."""

    def __init__(
        self, log: MetadataEventLog, *, history_events: int = 1000, skip: Collection[tuple[int, int]] = ()
    ) -> None:
        self.log = log
        self.watches = Watches()
        self.applying = asyncio.Lock()
        """Held while records are applied; a snapshot holds it to see one exact offset."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the log ended the stream by itself."""
        self._hosted: dict[int, HostedPartition] = {}
        self._history_events = history_events
        self._skip = frozenset(skip)
        self._stream: EventStream | None = None
        self._reader: threading.Thread | None = None
        self._changes: queue.SimpleQueue[tuple[Callable[[EventStream], None], Future[None]]] = queue.SimpleQueue()
        self._changing = asyncio.Lock()

    async def start(
        self, partitions: Iterable[int] | None = None, *, snapshots: Mapping[int, PartitionSnapshot] | None = None
    ) -> None:
        """Hosts these metadata partitions, or all; each is ready when what is in the log by now is applied."""
        wanted = sorted(range(self.log.partition_count) if partitions is None else partitions)
        hosted = await self._prepare(wanted, snapshots or {})
        self._hosted = {partition.number: partition for partition in hosted}
        self._stream = self.log.subscribe(_starts(hosted))
        loop = asyncio.get_running_loop()
        self._reader = threading.Thread(
            target=self._read, args=(self._stream, loop), name="metadata-reader", daemon=True
        )
        self._reader.start()

    async def close(self) -> None:
        """Stops following. The log stays open: it belongs to whoever opened it."""
        if self._stream is not None and self._reader is not None:
            self._stream.close()
            await asyncio.to_thread(self._reader.join)
        for number in list(self._hosted):
            self._drop(number)

    @property
    def hosted(self) -> Mapping[int, HostedPartition]:
        return self._hosted

    @property
    def hosts_everything(self) -> bool:
        return len(self._hosted) == self.log.partition_count

    async def assign(self, partitions: Iterable[int]) -> None:
        """Changes what is hosted. What goes is not served from now on; what comes is not ready until caught up."""
        async with self._changing:
            wanted = frozenset(partitions)
            removed = self._hosted.keys() - wanted
            # Asked first: when the log cannot be reached, nothing changes.
            added = await self._prepare(sorted(wanted - self._hosted.keys()), {})
            for number in removed:
                self._drop(number)
            await self._change(lambda stream: stream.remove(removed))
            self._hosted |= {partition.number: partition for partition in added}
            await self._change(lambda stream: stream.add(_starts(added)))

    async def wait_until_ready(self) -> None:
        for partition in list(self._hosted.values()):
            await partition.progress.reach(partition.progress.ready_at - 1, timeout_s=None)

    @property
    def is_started(self) -> bool:
        return self._stream is not None

    @property
    def is_ready_and_readable(self) -> bool:
        return self.is_ready and all(partition.progress.corrupt_at is None for partition in self._hosted.values())

    @property
    def is_ready(self) -> bool:
        return self.is_started and all(partition.progress.is_ready for partition in self._hosted.values())

    def _read(self, stream: EventStream, loop: asyncio.AbstractEventLoop) -> None:
        """Runs in a thread of its own; the next batch is fetched when the last one is applied."""
        try:
            while True:
                self._make_changes(stream)
                self._read_some(stream, loop)
        except StreamClosed as end:
            reason = str(end)
        except Exception as failure:
            _logger.exception("following the metadata log failed")
            reason = str(failure)
        self._fail_changes()
        loop.call_soon_threadsafe(self._end, reason)

    def _read_some(self, stream: EventStream, loop: asyncio.AbstractEventLoop) -> None:
        try:
            records = stream.poll(timeout_s=_POLL_S)
        except PositionLost as loss:
            _logger.warning("%s: its state is discarded and replayed", loss)
            asyncio.run_coroutine_threadsafe(self._replay(loss.partition, stream), loop).result()
            return
        except MetadataLogUnavailable as trouble:
            _logger.warning("the metadata log cannot be read; trying again: %s", trouble.message)
            time.sleep(_READ_AGAIN_S)
            return
        if records:
            asyncio.run_coroutine_threadsafe(self._apply(records, stream), loop).result()

    async def _apply(self, records: Sequence[LogRecord], stream: EventStream) -> None:
        async with self.applying:
            slice_end = time.monotonic() + _SLICE_S
            for record in records:
                try:
                    self._apply_one(record)
                except Diverged as divergence:
                    _logger.warning("%s: replaying it all", divergence)
                    stream.remove([record.partition])
                    await self._replay(record.partition, stream)
                if time.monotonic() > slice_end:
                    await asyncio.sleep(0)
                    slice_end = time.monotonic() + _SLICE_S

    def _apply_one(self, record: LogRecord) -> None:
        partition = self._hosted.get(record.partition)
        if partition is None or record.offset <= partition.progress.applied:
            return
        event = partition.apply(record)
        if event is not None and self.watches:
            token = ConsistencyToken(self.log.log_id, {record.partition: record.offset})
            self.watches.changed(record.partition, MetadataChange(event, token))

    async def _replay(self, number: int, stream: EventStream) -> None:
        """Begins a partition anew, after the log lost what this replica had read of it."""
        self._drop(number)
        # Hosted all the same, so that its calls are told to try again, not to go elsewhere.
        self._hosted[number] = self._new_partition(number, 0, INT64_MAX, None)
        while True:
            try:
                (partition,) = await self._prepare([number], {})
                break
            except MetadataLogUnavailable:
                await asyncio.sleep(_READ_AGAIN_S)
        self._drop(number)
        self._hosted[number] = partition
        stream.add(_starts([partition]))

    async def _prepare(
        self, numbers: Sequence[int], snapshots: Mapping[int, PartitionSnapshot]
    ) -> list[HostedPartition]:
        begins = await asyncio.to_thread(self.log.begin_offsets, numbers)
        ends = await asyncio.to_thread(self.log.end_offsets, numbers)
        return [self._new_partition(number, begins[number], ends[number], snapshots.get(number)) for number in numbers]

    def _new_partition(self, number: int, begin: int, end: int, snapshot: PartitionSnapshot | None) -> HostedPartition:
        usable = snapshot is not None and begin <= snapshot.applied < end
        if snapshot is not None and not usable:
            _logger.warning(
                "the snapshot of metadata partition %d is at offset %d, but the log holds %d to %d: replaying it all",
                *(number, snapshot.applied, begin, end - 1),
            )
        skip = frozenset(offset for partition, offset in self._skip if partition == number)
        if snapshot is None or not usable:
            return HostedPartition(
                number,
                state=MetadataState(),
                applied=begin - 1,
                ready_at=end,
                history_events=self._history_events,
                skip=skip,
            )
        return HostedPartition(
            number,
            state=snapshot.restore(),
            applied=snapshot.applied - 1,
            ready_at=end,
            history_events=self._history_events,
            proof=SnapshotProof(snapshot.applied, snapshot.leader_epoch),
            skip=skip,
        )

    def _drop(self, number: int) -> None:
        partition = self._hosted.pop(number, None)
        if partition is not None:
            partition.progress.abandon()
            self.watches.lost(number)

    async def _change(self, change: Callable[[EventStream], None]) -> None:
        done: Future[None] = Future()
        self._changes.put((change, done))
        async with asyncio.timeout(_LONGEST_CHANGE_S):
            await asyncio.wrap_future(done)

    def _make_changes(self, stream: EventStream) -> None:
        while not self._changes.empty():
            change, done = self._changes.get()
            try:
                change(stream)
            except BaseException as failure:
                done.set_exception(failure)
                raise
            done.set_result(None)

    def _fail_changes(self) -> None:
        while not self._changes.empty():
            self._changes.get()[1].set_exception(MetadataLogUnavailable("the metadata log was closed"))

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


def _starts(partitions: Iterable[HostedPartition]) -> dict[int, int]:
    return {partition.number: partition.progress.applied + 1 for partition in partitions}
