"""The metadata domain behind the synchronous interface, in process: what the contract suite runs without a wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from tiergate_client.errors import TiergateError
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    TopicIdPartition,
)
from tiergate_server.metadata.event_log import MetadataEventLog
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.manager import MetadataManager
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.replica import CallTerms, MetadataReplica

T = TypeVar("T")
_PAGE = 3


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class LocalMetadata(RemoteLogMetadata):
    """A replica of its own on the given log; sends its token along like the client does."""

    def __init__(self, log: MetadataEventLog) -> None:
        self.loop = LoopThread()
        self.token: ConsistencyToken | None = None
        self.manager = self.loop.run(self._start(log))

    async def _start(self, log: MetadataEventLog) -> MetadataManager:
        follower = LogFollower(log)
        await follower.start()
        await follower.wait_until_ready()
        return MetadataManager(MetadataReplica(follower))

    def close(self) -> None:
        self.loop.run(self.manager.replica.follower.close())
        self.loop.close()

    def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._saw(self.loop.run(self.manager.add_segment(metadata, self._terms)))

    def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        self._saw(self.loop.run(self.manager.update_segment(update, self._terms)))

    def put_partition_delete(self, delete: RemotePartitionDeleteMetadata) -> None:
        self._saw(self.loop.run(self.manager.put_partition_delete(delete, self._terms)))

    def get_segment(
        self, segment_id: SegmentId, *, partition: TopicIdPartition | None = None
    ) -> RemoteLogSegmentMetadata:
        return self._answer(self.manager.get_segment(segment_id, partition=partition, terms=self._terms))

    def find_segment(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        found = self._answer(
            self.manager.find_segment(partition, leader_epoch=leader_epoch, offset=offset, terms=self._terms)
        )
        return None if found is None else found.value()

    def find_segments(
        self, questions: Sequence[SegmentQuestion]
    ) -> list[RemoteLogSegmentMetadata | TiergateError | None]:
        answers = self._answer(self.manager.find_segments(questions, self._terms))
        return [answer.value() if isinstance(answer, PackedSegment) else answer for answer in answers]

    def find_next_segment_with_transaction_index(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self._answer(
            self.manager.find_next_segment_with_transaction_index(
                partition, leader_epoch=leader_epoch, offset=offset, terms=self._terms
            )
        )

    def log_size(self, partition: TopicIdPartition, *, leader_epoch: int) -> int:
        return self._answer(self.manager.log_size(partition, leader_epoch=leader_epoch, terms=self._terms))

    def watch(
        self, *, partition: TopicIdPartition | None = None, after: ConsistencyToken | None = None
    ) -> Iterator[MetadataChange]:
        watcher, begin = self.loop.run(
            self.manager.watch(partition=partition, terms=CallTerms(token=after, timeout_s=10))
        )
        yield MetadataChange(None, after or begin)
        while True:
            yield from self.loop.run(watcher.take(timeout_s=0.05))

    def highest_offset_for_epoch(self, partition: TopicIdPartition, *, leader_epoch: int) -> int | None:
        return self._answer(
            self.manager.highest_offset_for_epoch(partition, leader_epoch=leader_epoch, terms=self._terms)
        )

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        after: tuple[int, SegmentId] | None = None
        while page := self._answer(
            self.manager.list_segments(
                partition, leader_epoch=leader_epoch, after=after, limit=_PAGE, terms=self._terms
            )
        ):
            yield from page
            after = (page[-1].start_offset, page[-1].segment_id)

    def list_partitions(self, *, topic: str | None = None) -> Iterator[PartitionSummary]:
        after: tuple[str, TopicId, int] | None = None
        while page := self._answer(
            self.manager.list_partitions(topic=topic, after=after, limit=_PAGE, terms=self._terms)
        ):
            yield from page
            last = page[-1].partition
            after = (last.topic, last.topic_id, last.partition)

    @property
    def _terms(self) -> CallTerms:
        return CallTerms(token=self.token, timeout_s=10)

    def _answer(self, work: Coroutine[Any, Any, tuple[T, ConsistencyToken]]) -> T:
        value, token = self.loop.run(work)
        self._saw(token)
        return value

    def _saw(self, token: ConsistencyToken) -> None:
        self.token = token if self.token is None else self.token.merged(token)
