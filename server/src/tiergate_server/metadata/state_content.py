"""What a state consists of, as plain values: everything that its answers depend on and that cannot be rebuilt.

The caches and the state give it and are made of it. How it is written down is the snapshot codec's business.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tiergate_client.values import RemotePartitionDeleteMetadata, TopicIdPartition

PartitionKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""


class Contradiction(ValueError):
    """The content is none that a state can have."""


@dataclass(frozen=True, slots=True)
class EpochContent:
    """One leader epoch of a partition. Its members are not here: the segments name their epochs."""

    highest_offset: int | None
    reference_offsets: array[int]
    reference_ids: Sequence[bytes]
    """The segment at each of the offsets. History decided which ones are here: they cannot be derived."""


@dataclass(frozen=True, slots=True)
class PartitionContent:
    """One user partition; the segments are ascending by (start offset, id)."""

    partition: TopicIdPartition
    segment_ids: Sequence[bytes]
    packed_segments: Sequence[bytes]
    epochs: Mapping[int, EpochContent]
    former_epochs: Mapping[bytes, Sequence[int]] = field(default_factory=dict)
    """Segment -> the epochs that list it although only an earlier Add of it had them."""


@dataclass(frozen=True, slots=True)
class StateContent:
    topic_names: Mapping[bytes, str]
    mentioned_names: Collection[str]
    deleted: Collection[PartitionKey]
    deletes: Collection[RemotePartitionDeleteMetadata]
    partition_count: int
    partitions: Iterable[PartitionContent]
    """One at a time, and only once."""
