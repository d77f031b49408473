"""Random histories of a few partitions as brokers make them, with what should not happen but does.

Leaders change and copy again what others have copied; events are repeated, come out of order and speak of segments that
nobody knows. Only events that Kafka's own consumer survives are among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.event_codec import MetadataEvent

_WEIGHTS = {
    "copy": 30,
    "step": 44,
    "again": 10,
    "repeated add": 3,
    "any step": 8,
    "unknown segment": 3,
    "partition delete": 2,
}
_LONGEST_SEGMENT = 25


@dataclass(slots=True)
class _Partition:
    leader_epoch: int = 0
    next_offset: int = 0
    segments: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    states: dict[SegmentId, SegmentState] = field(default_factory=dict)


class RandomHistory:
    def __init__(self, random: Random, *, epochs_fit: bool = True) -> None:
        """Without `epochs_fit` a segment's epochs may begin anywhere, which no broker writes but the format allows."""
        self._random = random
        self._epochs_fit = epochs_fit
        self._partitions: dict[TopicIdPartition, _Partition] = {}

    def event(self, partitions: Sequence[TopicIdPartition]) -> MetadataEvent:
        """What happens next to one of these."""
        partition = self._random.choice(partitions)
        known = self._partitions.setdefault(partition, _Partition())
        (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        if kind == "partition delete":
            return self._partition_delete(partition)
        if kind == "unknown segment":
            return self._update(partition, SegmentId(self._random.randbytes(16)), self._later_state())
        if kind == "copy" or not known.segments:
            return self._copy(partition, known)
        segment = self._random.choice(known.segments[-8:] if self._random.random() < 0.7 else known.segments)
        if kind == "repeated add":
            return segment
        current = known.states[segment.segment_id]
        if kind == "step":
            target = self._next_state(current)
        elif kind == "again":
            finished = [each for each, state in known.states.items() if state is SegmentState.COPY_FINISHED]
            target = SegmentState.COPY_FINISHED
            if finished:
                return self._update(partition, self._random.choice(finished), target)
        else:
            target = self._later_state()
        if current.may_become(target):
            known.states[segment.segment_id] = target
        return self._update(partition, segment.segment_id, target)

    def _copy(self, partition: TopicIdPartition, known: _Partition) -> RemoteLogSegmentMetadata:
        random = self._random
        if random.random() < 0.15:
            known.leader_epoch += random.randint(1, 2)
            known.next_offset = max(0, known.next_offset - random.randint(0, 2 * _LONGEST_SEGMENT))
        start, length = known.next_offset, random.randint(1, _LONGEST_SEGMENT)
        if known.segments and random.random() < 0.35:
            start = random.choice(known.segments).start_offset  # copied again, by whoever did not know of the first
        elif random.random() < 0.15:
            start = random.randint(0, known.next_offset + 10)
        end = start + length - 1
        known.next_offset = max(known.next_offset, end + 1)
        segment = RemoteLogSegmentMetadata(
            partition=partition,
            segment_id=SegmentId(random.randbytes(16)),
            start_offset=start,
            end_offset=end,
            segment_leader_epochs=self._epochs(known.leader_epoch, start, end),
            segment_size_bytes=random.randint(0, 1 << 30),
            max_timestamp_ms=random.randint(-1, 10**13),
            broker_id=random.randint(0, 9),
            event_timestamp_ms=random.randint(0, 10**13),
            custom_metadata=self._custom_metadata(),
            txn_index_empty=random.random() < 0.5,
        )
        known.segments.append(segment)
        known.states[segment.segment_id] = SegmentState.COPY_STARTED
        return segment

    def _epochs(self, current: int, start: int, end: int) -> LeaderEpochs:
        random = self._random
        candidates = range(max(0, current - 3), current + 1)
        numbers = sorted(random.sample(candidates, min(len(candidates), random.choice((1, 1, 1, 2, 3)))))
        if self._epochs_fit:
            starts = [start, *sorted(random.randint(start, end) for _ in numbers[1:])]
        else:
            starts = [random.randint(-1, end + 3) for _ in numbers]
        return LeaderEpochs.of(zip(numbers, starts, strict=True))

    def _update(
        self, partition: TopicIdPartition, segment_id: SegmentId, state: SegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            partition=partition,
            segment_id=segment_id,
            state=state,
            custom_metadata=self._custom_metadata(),
            event_timestamp_ms=self._random.randint(0, 10**13),
            broker_id=self._random.randint(0, 9),
        )

    def _partition_delete(self, partition: TopicIdPartition) -> RemotePartitionDeleteMetadata:
        """Never FINISHED: events that came after it would end Kafka's consumer."""
        state = self._random.choice(
            (PartitionDeleteState.DELETE_PARTITION_MARKED, PartitionDeleteState.DELETE_PARTITION_STARTED)
        )
        return RemotePartitionDeleteMetadata(partition=partition, state=state, event_timestamp_ms=1, broker_id=1)

    def _next_state(self, current: SegmentState) -> SegmentState:
        if current is SegmentState.COPY_STARTED and self._random.random() < 0.85:
            return SegmentState.COPY_FINISHED
        if current is SegmentState.COPY_FINISHED and self._random.random() < 0.6:
            return SegmentState.COPY_FINISHED
        return max(SegmentState.DELETE_STARTED, SegmentState(min(current + 1, SegmentState.DELETE_FINISHED)))

    def _later_state(self) -> SegmentState:
        """Any but COPY_STARTED: Kafka's consumer ends with an update to that."""
        return self._random.choice(list(SegmentState)[1:])

    def _custom_metadata(self) -> bytes | None:
        return self._random.choice((None, b"", self._random.randbytes(self._random.randint(1, 128))))
