"""The metadata of every user partition: applies events in log order and answers from what they add up to.

Plain code that never blocks, used from one thread. How far the log was read, and whether that is far enough to answer,
is not its business: a partition that no event spoke of reads as empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Generator, Iterator
from itertools import islice, takewhile
from typing import TypeAlias

from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tiergate_server.metadata.event_codec import MetadataEvent
from tiergate_server.metadata.packed_partition_cache import PackedPartitionCache
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.partition_cache import PartitionCache, PartitionFigures
from tiergate_server.metadata.state_content import Contradiction, PartitionKey, StateContent
from tiergate_server.metadata.verdict import APPLIED, Applied, Verdict

_NamedKey: TypeAlias = tuple[str, bytes, int]


class MetadataState:
    """All partitions by (topic id, partition), with the names that the log gave to the topics."""

    def __init__(self, new_cache: Callable[[TopicIdPartition], PartitionCache] = PackedPartitionCache) -> None:
        self.applied_events = 0
        self.dropped_events = 0
        self._new_cache = new_cache
        self._caches: dict[PartitionKey, PartitionCache] = {}
        self._by_name: list[_NamedKey] = []  # the keys of the caches, in order
        self._deletes: dict[PartitionKey, RemotePartitionDeleteMetadata] = {}
        self._deleted: set[PartitionKey] = set()
        self._topic_names: dict[bytes, str] = {}
        self._mentioned_names: set[str] = set()

    def apply(self, event: MetadataEvent) -> Verdict:
        """Applies an event as every other replica, and Kafka, does. One that breaks a rule is dropped and counted."""
        self._topic_names.setdefault(event.partition.topic_id.raw, event.partition.topic)
        self._mentioned_names.add(event.partition.topic)
        verdict: Verdict
        if isinstance(event, RemoteLogSegmentMetadata):
            verdict = self._cache_for(event.partition).apply_add(event)
        elif isinstance(event, RemotePartitionDeleteMetadata):
            verdict = self._apply_partition_delete(event)
        else:
            verdict = self._cache_for(event.partition).apply_update(event)
        if isinstance(verdict, Applied):
            self.applied_events += 1
        else:
            self.dropped_events += 1
        return verdict

    def copy(self) -> MetadataState:
        """A state of its own with the same answers, whose events are counted anew."""
        steps = self.copy_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                copied: MetadataState = done.value
                return copied

    def copy_in_steps(self) -> Generator[None, None, MetadataState]:
        """As copy, with a pause after each partition. Nothing may be applied until it is done."""
        copied = MetadataState(self._new_cache)
        copied._by_name = self._by_name.copy()
        copied._deletes = self._deletes.copy()
        copied._deleted = self._deleted.copy()
        copied._topic_names = self._topic_names.copy()
        copied._mentioned_names = self._mentioned_names.copy()
        for key, cache in self._caches.items():
            copied._caches[key] = cache.copy()
            yield
        return copied

    def content(self) -> StateContent:
        """All that the state holds. Nothing may be applied until its partitions are read."""
        return StateContent(
            topic_names=self._topic_names,
            mentioned_names=self._mentioned_names,
            deleted=self._deleted,
            deletes=self._deletes.values(),
            partition_count=len(self._caches),
            partitions=(cache.content() for cache in self._caches.values()),
        )

    @classmethod
    def restored(cls, content: StateContent) -> MetadataState:
        """A state of this content. Raises Contradiction or InvalidField when there can be none."""
        state = cls()
        for topic_id, name in content.topic_names.items():
            TopicIdPartition(TopicId(topic_id), 0, name)  # which refuses what is no name
        state._topic_names = dict(content.topic_names)
        state._mentioned_names = set(content.mentioned_names)
        state._deleted = set(content.deleted)
        for partition in content.partitions:
            key = _key(partition.partition)
            if key in state._caches or key[0] not in state._topic_names:
                raise Contradiction(f"partition {partition.partition} is there twice, or its topic has no name")
            state._caches[key] = PackedPartitionCache.restored(partition)
        state._by_name = sorted(map(state._named, state._caches))
        state._deletes = {_key(delete.partition): delete for delete in content.deletes}
        if not state._deletes.keys() <= state._caches.keys():
            raise Contradiction("a partition that is not there is being deleted")
        return state

    def topic_name(self, topic_id: TopicId) -> str | None:
        """The name that the log gave to the topic, also when it has no partitions any more."""
        return self._topic_names.get(topic_id.raw)

    def knows_topic(self, name: str) -> bool:
        """Whether any event ever mentioned the name."""
        return name in self._mentioned_names

    def partition_delete_state(self, partition: TopicIdPartition) -> PartitionDeleteState | None:
        """How far the deletion of the partition is; None also when it is finished."""
        delete = self._deletes.get(_key(partition))
        return None if delete is None else delete.state

    def is_deleted(self, partition: TopicIdPartition) -> bool:
        """Whether the deletion of the partition was ever finished, whatever events came afterwards."""
        return _key(partition) in self._deleted

    def segment(self, partition: TopicIdPartition, segment_id: SegmentId) -> RemoteLogSegmentMetadata | None:
        cache = self._caches.get(_key(partition))
        return None if cache is None else cache.segment(segment_id)

    def search(self, segment_id: SegmentId) -> RemoteLogSegmentMetadata | None:
        """The segment, whichever partition it belongs to."""
        found = (cache.segment(segment_id) for cache in self._caches.values())
        return next((metadata for metadata in found if metadata is not None), None)

    def find(self, partition: TopicIdPartition, *, leader_epoch: int, offset: int) -> PackedSegment | None:
        cache = self._caches.get(_key(partition))
        return None if cache is None else cache.find(leader_epoch=leader_epoch, offset=offset)

    def find_next_with_txn_index(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        cache = self._caches.get(_key(partition))
        return None if cache is None else cache.find_next_with_txn_index(leader_epoch=leader_epoch, offset=offset)

    def log_size(self, partition: TopicIdPartition, *, leader_epoch: int) -> int:
        cache = self._caches.get(_key(partition))
        return 0 if cache is None else cache.log_size(leader_epoch=leader_epoch)

    def highest_offset(self, partition: TopicIdPartition, *, leader_epoch: int) -> int | None:
        cache = self._caches.get(_key(partition))
        return None if cache is None else cache.highest_offset(leader_epoch=leader_epoch)

    def segments_after(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int | None,
        after: tuple[int, SegmentId] | None,
        limit: int,
    ) -> list[RemoteLogSegmentMetadata]:
        """A page of the partition's segments, as PartitionCache.segments_after."""
        cache = self._caches.get(_key(partition))
        return [] if cache is None else cache.segments_after(leader_epoch=leader_epoch, after=after, limit=limit)

    def partitions_after(
        self, *, topic: str | None, after: tuple[str, TopicId, int] | None, limit: int
    ) -> list[tuple[TopicIdPartition, PartitionFigures]]:
        """The partitions that events spoke of, ascending by (name, topic id, partition): of one name, or all with None.

        The first `limit` of those strictly behind `after`, which need not be there any more.
        """
        page = islice(self._named_keys(topic, after), limit)
        return [
            (
                TopicIdPartition(topic_id=TopicId(topic_id), partition=number, topic=name),
                self._caches[topic_id, number].figures(),
            )
            for name, topic_id, number in page
        ]

    def _named_keys(self, topic: str | None, after: tuple[str, TopicId, int] | None) -> Iterator[_NamedKey]:
        position = 0 if topic is None else bisect_left(self._by_name, (topic, b"", 0))
        if after is not None:
            name, topic_id, number = after
            position = max(position, bisect_right(self._by_name, (name, topic_id.raw, number)))
        keys = islice(self._by_name, position, None)
        return keys if topic is None else takewhile(lambda key: key[0] == topic, keys)

    def _apply_partition_delete(self, event: RemotePartitionDeleteMetadata) -> Verdict:
        """Kafka stores whatever state arrives, without looking at the one before."""
        key = _key(event.partition)
        if event.state is not PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._cache_for(event.partition)
            self._deletes[key] = event
            return APPLIED
        self._deleted.add(key)
        self._deletes.pop(key, None)
        if self._caches.pop(key, None) is not None:
            del self._by_name[bisect_left(self._by_name, self._named(key))]
        return APPLIED

    def _cache_for(self, partition: TopicIdPartition) -> PartitionCache:
        key = _key(partition)
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = self._new_cache(partition)
            insort(self._by_name, self._named(key))
        return cache

    def _named(self, key: PartitionKey) -> _NamedKey:
        return (self._topic_names[key[0]], *key)


def _key(partition: TopicIdPartition) -> PartitionKey:
    return partition.topic_id.raw, partition.partition
