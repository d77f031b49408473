"""The metadata manager: which changes may be asked for, and the answers to questions about segments.

A change that this replica already knows to be illegal is refused at once; any other is published, and its caller is
told what the log decided, since another writer may have been faster. What the wire looks like is not its business.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from tiergate_client.errors import (
    DataLoss,
    InvalidField,
    InvalidTransition,
    LimitExceeded,
    MetadataCorrupt,
    MetadataNotReady,
    NotHosted,
    OffsetOutOfRange,
    ReadOnly,
    SegmentConflict,
    SegmentNotFound,
    TiergateError,
    TopicNotFound,
    Unavailable,
)
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionDeleteState,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.event_codec import MetadataEvent
from tiergate_server.metadata.packed_segment import PackedSegment
from tiergate_server.metadata.partition_cache import PartitionFigures
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.metadata.replica import CallTerms, MetadataReplica, as_ranges
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.verdict import IllegalTransition, UnknownSegment
from tiergate_server.metadata.watches import Watcher

_MARKED = PartitionDeleteState.DELETE_PARTITION_MARKED
_FINISHED = PartitionDeleteState.DELETE_PARTITION_FINISHED


class MetadataManager:
    """Reads answer from this replica's state, as far as the caller's token; mutations answer when applied."""

    def __init__(
        self, replica: MetadataReplica, *, custom_metadata_bytes: int = 128, only_follows: bool = False
    ) -> None:
        self.replica = replica
        self._custom_metadata_bytes = custom_metadata_bytes
        self._only_follows = only_follows

    async def add_segment(self, metadata: RemoteLogSegmentMetadata, terms: CallTerms) -> ConsistencyToken:
        deadline = time.monotonic() + terms.timeout_s
        if metadata.state is not SegmentState.COPY_STARTED:
            raise InvalidField.of("segment.state", f"a segment is added as COPY_STARTED, not {metadata.state.name}")
        self._check_custom_metadata(metadata.custom_metadata)
        home = await self._begin_mutation(metadata, deadline, terms)
        with self._telling([home]):
            self._check_partition(metadata)
            existing = self.replica.state(home).segment(metadata.partition, metadata.segment_id)
            if existing is None:
                await self._decide(home, metadata, deadline)
            elif existing.state is not SegmentState.COPY_STARTED:
                raise _illegal(metadata.segment_id, existing.state, SegmentState.COPY_STARTED)
            elif not existing.has_same_content(metadata):
                raise SegmentConflict(
                    f"segment {metadata.segment_id} is there with other content; take a new segment id"
                )
        return self.replica.token([home])

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate, terms: CallTerms) -> ConsistencyToken:
        deadline = time.monotonic() + terms.timeout_s
        if update.state is SegmentState.COPY_STARTED:
            raise InvalidField.of("state", "an update never leads to COPY_STARTED; add the segment instead")
        self._check_custom_metadata(update.custom_metadata)
        home = await self._begin_mutation(update, deadline, terms)
        with self._telling([home]):
            self._check_partition(update)
            existing = self.replica.state(home).segment(update.partition, update.segment_id)
            if existing is None:
                if update.state is not SegmentState.DELETE_FINISHED:
                    raise _absent(update.segment_id)
            elif not existing.state.may_become(update.state):
                raise _illegal(update.segment_id, existing.state, update.state)
            elif (existing.state, existing.custom_metadata) != (update.state, update.custom_metadata):
                await self._decide(home, update, deadline)
        return self.replica.token([home])

    async def put_partition_delete(self, delete: RemotePartitionDeleteMetadata, terms: CallTerms) -> ConsistencyToken:
        deadline = time.monotonic() + terms.timeout_s
        home = await self._begin_mutation(delete, deadline, terms)
        state = self.replica.state(home)
        current = _FINISHED if state.is_deleted(delete.partition) else state.partition_delete_state(delete.partition)
        with self._telling([home]):
            self._check_topic_name(delete.partition)
            if current is not delete.state:
                is_next = delete.state is _MARKED if current is None else current.may_become(delete.state)
                if not is_next:
                    raise InvalidTransition(
                        f"the deletion of {delete.partition} is {'not begun' if current is None else current.name} "
                        f"and cannot become {delete.state.name}",
                        details={"from": "" if current is None else current.name, "to": delete.state.name},
                    )
                await self.replica.publish(home, delete, deadline=deadline)
        return self.replica.token([home])

    async def get_segment(
        self, segment_id: SegmentId, *, partition: TopicIdPartition | None, terms: CallTerms
    ) -> tuple[RemoteLogSegmentMetadata, ConsistencyToken]:
        homes = self._everywhere() if partition is None else [self._home(partition)]
        await self.replica.settle(homes, terms)
        found: RemoteLogSegmentMetadata | None
        if partition is not None:
            found = self.replica.state(homes[0]).segment(partition, segment_id)
        else:
            searched = (self.replica.state(home).search(segment_id) for home in homes)
            found = next((segment for segment in searched if segment is not None), None)
        if found is None:
            with self._telling(homes):
                if partition is None:
                    self._require_whole(f"segment {segment_id} is not in what this replica hosts")
                raise _absent(segment_id)
        return found, self.replica.token(homes)

    async def find_segment(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int, terms: CallTerms
    ) -> tuple[PackedSegment | None, ConsistencyToken]:
        """The segment is as it is kept: to build its value takes as long as to find it."""
        homes = [self._home(partition)]
        await self.replica.settle(homes, terms)
        found = self.replica.state(homes[0]).find(partition, leader_epoch=leader_epoch, offset=offset)
        return found, self.replica.token(homes)

    async def find_segments(
        self, questions: Sequence[SegmentQuestion], terms: CallTerms
    ) -> tuple[list[PackedSegment | TiergateError | None], ConsistencyToken]:
        """The answers in the order of the questions, each a segment, none, or what the question failed with.

        Segments are as they are kept: for a thousand of them, building the values is most of the work.
        """
        homes = [self._home(question.partition) for question in questions]
        states: dict[int, MetadataState] = {}
        failures: dict[int, TiergateError] = {}
        for home in dict.fromkeys(homes):
            try:
                await self.replica.settle([home], terms)
                states[home] = self.replica.state(home)  # now: it may not be hosted any more when the next is settled
            except (Unavailable, DataLoss) as failure:
                failures[home] = failure
        answers = [
            states[home].find(question.partition, leader_epoch=question.leader_epoch, offset=question.offset)
            if home in states
            else failures[home]
            for home, question in zip(homes, questions, strict=True)
        ]
        return answers, self.replica.token(dict.fromkeys(homes))

    async def find_next_segment_with_transaction_index(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int, terms: CallTerms
    ) -> tuple[RemoteLogSegmentMetadata | None, ConsistencyToken]:
        homes = [self._home(partition)]
        await self.replica.settle(homes, terms)
        state = self.replica.state(homes[0])
        found = state.find_next_with_txn_index(partition, leader_epoch=leader_epoch, offset=offset)
        return found, self.replica.token(homes)

    async def highest_offset_for_epoch(
        self, partition: TopicIdPartition, *, leader_epoch: int, terms: CallTerms
    ) -> tuple[int | None, ConsistencyToken]:
        homes = [self._home(partition)]
        await self.replica.settle(homes, terms)
        offset = self.replica.state(homes[0]).highest_offset(partition, leader_epoch=leader_epoch)
        return offset, self.replica.token(homes)

    async def log_size(
        self, partition: TopicIdPartition, *, leader_epoch: int, terms: CallTerms
    ) -> tuple[int, ConsistencyToken]:
        homes = [self._home(partition)]
        await self.replica.settle(homes, terms)
        size_bytes = self.replica.state(homes[0]).log_size(partition, leader_epoch=leader_epoch)
        return size_bytes, self.replica.token(homes)

    async def list_segments(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int | None,
        after: tuple[int, SegmentId] | None,
        limit: int,
        terms: CallTerms,
    ) -> tuple[list[RemoteLogSegmentMetadata], ConsistencyToken]:
        homes = [self._home(partition)]
        await self.replica.settle(homes, terms)
        state = self.replica.state(homes[0])
        page = state.segments_after(partition, leader_epoch=leader_epoch, after=after, limit=limit)
        return page, self.replica.token(homes)

    async def list_partitions(
        self, *, topic: str | None, after: tuple[str, TopicId, int] | None, limit: int, terms: CallTerms
    ) -> tuple[list[PartitionSummary], ConsistencyToken]:
        homes = await self._settle_everywhere(terms)
        states = [self.replica.state(home) for home in self._everywhere()]
        if topic is not None and not any(state.knows_topic(topic) for state in states):
            with self._telling(homes):
                self._require_whole(f"no partition of {topic[:260]!r} is in what this replica hosts")
                raise TopicNotFound(f"the metadata log never mentioned a topic named {topic[:260]!r}")
        pages = [state.partitions_after(topic=topic, after=after, limit=limit) for state in states]
        merged = heapq.merge(*pages, key=lambda entry: (entry[0].topic, entry[0]))
        page = [self._summary(partition, figures) for partition, figures in islice(merged, limit)]
        return page, self.replica.token(homes)

    async def watch(self, *, partition: TopicIdPartition | None, terms: CallTerms) -> tuple[Watcher, ConsistencyToken]:
        """A watcher of what comes after the caller's token, and where it begins. The caller discards it."""
        homes = self._readable() if partition is None else [self._home(partition)]
        await self.replica.settle(homes, terms)
        watcher = Watcher(frozenset(homes))
        if terms.token is not None:
            for home in homes:
                watcher.push(self._missed(home, terms.token.applied_offsets.get(home)))
        self.replica.follower.watches.add(watcher)
        return watcher, self.replica.token(homes)

    def _missed(self, home: int, seen: int | None) -> Iterator[MetadataChange]:
        hosted = self.replica.hosted[home]
        if seen is None:  # the token does not speak of this partition: its watcher begins with what comes
            return
        if seen < hosted.history_begins_after:
            raise OffsetOutOfRange(
                f"changes of metadata partition {home} up to offset {hosted.history_begins_after} are not kept any "
                "more; list again and watch from there",
                details={
                    "earliest": str(hosted.history_begins_after),
                    "latest": str(hosted.progress.applied),
                },
            )
        for offset, event in hosted.history:
            if offset > seen:
                yield MetadataChange(event, ConsistencyToken(self.replica.log.log_id, {home: offset}))

    async def _begin_mutation(self, event: MetadataEvent, deadline: float, terms: CallTerms) -> int:
        """Returns the event's metadata partition when this replica knows what it would change."""
        if self._only_follows:
            raise ReadOnly("this replica only follows the log of another service; write there")
        home = self._home(event.partition)
        await self.replica.settle([home], terms)
        await self.replica.undecided(event, deadline=deadline)
        await self.replica.settle([home], terms)  # waiting took time: it may not be hosted any more
        return home

    @contextmanager
    def _telling(self, homes: Sequence[int]) -> Iterator[None]:
        """A refusal tells how far this replica had seen the log, so that its caller does not read something older."""
        try:
            yield
        except TiergateError as refusal:
            refusal.token = self.replica.token(homes)
            raise

    async def _decide(
        self, home: int, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate, deadline: float
    ) -> None:
        verdict = await self.replica.publish(home, event, deadline=deadline)
        if isinstance(verdict, IllegalTransition):
            raise _illegal(event.segment_id, verdict.from_state, verdict.to_state)
        if isinstance(verdict, UnknownSegment) and event.state is not SegmentState.DELETE_FINISHED:
            raise _absent(event.segment_id)

    def _home(self, partition: TopicIdPartition) -> int:
        return metadata_partition(partition, partition_count=self.replica.log.partition_count)

    def _everywhere(self) -> list[int]:
        return list(self.replica.hosted)

    def _readable(self) -> list[int]:
        return [home for home, hosted in self.replica.hosted.items() if hosted.progress.corrupt_at is None]

    @property
    def is_partial(self) -> bool:
        """Whether there may be more than this replica knows."""
        return not (self.replica.follower.hosts_everything and self.replica.follower.is_ready_and_readable)

    async def _settle_everywhere(self, terms: CallTerms) -> list[int]:
        """What is hosted and can be answered for: the rest is told as partial, not waited for."""
        settled = []
        for home in self._everywhere():
            try:
                await self.replica.settle([home], terms)
            except (MetadataNotReady, MetadataCorrupt):
                continue
            settled.append(home)
        return settled

    def _require_whole(self, why: str) -> None:
        """What a replica does not find is not there only if it knows everything."""
        if not self.replica.follower.hosts_everything:
            raise NotHosted(f"{why}; ask the others", details={"hosted": as_ranges(self.replica.hosted)})

    def _check_partition(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        self._check_topic_name(event.partition)
        if self.replica.state(self._home(event.partition)).is_deleted(event.partition):
            raise InvalidTransition(
                f"the deletion of {event.partition} is finished: nothing of it can change any more",
                details={"from": _FINISHED.name, "to": event.state.name},
            )

    def _check_topic_name(self, partition: TopicIdPartition) -> None:
        names = (hosted.state.topic_name(partition.topic_id) for hosted in self.replica.hosted.values())
        known = next((name for name in names if name is not None), None)
        if known not in (None, partition.topic):
            raise InvalidField.of(
                "partition.topic",
                f"topic id {partition.topic_id} is known as {known!r}, not {partition.topic!r}",
            )

    def _check_custom_metadata(self, custom_metadata: bytes | None) -> None:
        limit = self._custom_metadata_bytes
        if custom_metadata is not None and len(custom_metadata) > limit:
            raise LimitExceeded.of(
                "custom_metadata_bytes",
                limit,
                f"custom metadata of {len(custom_metadata)} bytes is above the limit of {limit}",
            )

    def _summary(self, partition: TopicIdPartition, figures: PartitionFigures) -> PartitionSummary:
        home = self._home(partition)
        return PartitionSummary(
            partition=partition,
            metadata_partition=home,
            segment_count=figures.segment_count,
            finished_segment_count=figures.finished_segment_count,
            finished_size_bytes=figures.finished_size_bytes,
            start_offset=figures.start_offset,
            end_offset=figures.end_offset,
            ready=self.replica.hosted[home].progress.is_ready,
        )


def _absent(segment_id: SegmentId) -> SegmentNotFound:
    return SegmentNotFound(f"there is no segment {segment_id}")


def _illegal(segment_id: SegmentId, current: SegmentState, target: SegmentState) -> InvalidTransition:
    return InvalidTransition(
        f"segment {segment_id} is {current.name} and cannot become {target.name}",
        details={"from": current.name, "to": target.name},
    )
