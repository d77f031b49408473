"""What both sides say about segments: partitions, metadata, states, tokens, summaries.

Values only: frozen, validated where they are made. How they are stored or sent is not decided here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField
from tiergate_client.ids import LogId, SegmentId, TopicId
from tiergate_client.integers import require_int32, require_int64

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """One partition of one incarnation of a topic. Two are equal when id and partition are: the name travels along."""

    topic_id: TopicId
    partition: int
    topic: str = field(compare=False)

    def __post_init__(self) -> None:
        require_int32("partition", self.partition, minimum=0)
        if not _TOPIC_NAME.fullmatch(self.topic) or self.topic in (".", ".."):
            raise InvalidField.of(
                "topic", f"{self.topic[:260]!r} is no topic name: 1 to 249 of [a-zA-Z0-9._-], not '.' or '..'"
            )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({self.topic_id})"


class SegmentState(enum.IntEnum):
    """A remote segment's life, numbered as in Kafka's records."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3

    def may_become(self, target: SegmentState) -> bool:
        return target in _LEGAL_STEPS[self]


# Repeating a state is legal, so that replays and retries are.
_LEGAL_STEPS: Mapping[SegmentState, frozenset[SegmentState]] = {
    SegmentState.COPY_STARTED: frozenset(
        {SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED}
    ),
    SegmentState.COPY_FINISHED: frozenset({SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED}),
    SegmentState.DELETE_STARTED: frozenset({SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED}),
    SegmentState.DELETE_FINISHED: frozenset({SegmentState.DELETE_FINISHED}),
}


class PartitionDeleteState(enum.IntEnum):
    """How far the deletion of a whole partition is, numbered as in Kafka's records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2

    def may_become(self, target: PartitionDeleteState) -> bool:
        return target - self in (0, 1)


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """Everything that is known about one remote segment."""

    partition: TopicIdPartition
    segment_id: SegmentId
    start_offset: int
    end_offset: int
    segment_leader_epochs: LeaderEpochs
    segment_size_bytes: int
    max_timestamp_ms: int = -1
    broker_id: int = -1
    event_timestamp_ms: int = -1
    custom_metadata: bytes | None = None
    state: SegmentState = SegmentState.COPY_STARTED
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        require_int64("start_offset", self.start_offset, minimum=0)
        require_int64("end_offset", self.end_offset, minimum=self.start_offset)
        require_int32("segment_size_bytes", self.segment_size_bytes)
        require_int64("max_timestamp_ms", self.max_timestamp_ms)
        require_int64("event_timestamp_ms", self.event_timestamp_ms)
        require_int32("broker_id", self.broker_id)
        if not self.segment_leader_epochs:
            raise InvalidField.of("segment_leader_epochs", "a segment has at least one leader epoch")

    def updated_by(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """As after the update: custom metadata is replaced, also by none."""
        return replace(
            self,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            state=update.state,
        )

    def step(
        self, state: SegmentState, *, event_timestamp_ms: int, custom_metadata: bytes | None = None
    ) -> RemoteLogSegmentMetadataUpdate:
        """The update to `state`, which keeps the custom metadata unless another is given."""
        return RemoteLogSegmentMetadataUpdate(
            partition=self.partition,
            segment_id=self.segment_id,
            state=state,
            custom_metadata=self.custom_metadata if custom_metadata is None else custom_metadata,
            event_timestamp_ms=event_timestamp_ms,
            broker_id=self.broker_id,
        )

    def has_same_content(self, other: RemoteLogSegmentMetadata) -> bool:
        """Whether both announce the same segment: who announced it when does not matter."""
        return self == replace(other, broker_id=self.broker_id, event_timestamp_ms=self.event_timestamp_ms)


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """A step in a segment's life. It replaces the custom metadata: None erases it."""

    partition: TopicIdPartition
    segment_id: SegmentId
    state: SegmentState
    custom_metadata: bytes | None = None
    event_timestamp_ms: int = -1
    broker_id: int = -1

    def __post_init__(self) -> None:
        require_int64("event_timestamp_ms", self.event_timestamp_ms)
        require_int32("broker_id", self.broker_id)


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata:
    """A step in the deletion of a whole partition."""

    partition: TopicIdPartition
    state: PartitionDeleteState
    event_timestamp_ms: int = -1
    broker_id: int = -1


@dataclass(frozen=True, slots=True)
class ConsistencyToken:
    """How far the metadata log was applied: metadata partition -> last applied offset, -1 for none."""

    log_id: LogId
    applied_offsets: Mapping[int, int]

    def merged(self, other: ConsistencyToken) -> ConsistencyToken:
        """The pointwise maximum. Only tokens of the same log can be merged."""
        if other.log_id != self.log_id:
            raise ValueError(f"tokens of the logs {self.log_id} and {other.log_id} cannot be merged")
        merged = dict(self.applied_offsets)
        for partition, offset in other.applied_offsets.items():
            merged[partition] = max(offset, merged.get(partition, -1))
        return ConsistencyToken(self.log_id, merged)


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What the metadata service knows of a partition; offsets and bytes are those of finished segments."""

    partition: TopicIdPartition
    metadata_partition: int
    segment_count: int
    finished_segment_count: int
    finished_size_bytes: int
    start_offset: int | None
    end_offset: int | None
    ready: bool


@dataclass(frozen=True, slots=True)
class SegmentQuestion:
    """Which finished segment holds this offset in this epoch?"""

    partition: TopicIdPartition
    leader_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """An event that changed the metadata; None says that up to the token there was nothing more."""

    event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata | None
    token: ConsistencyToken
