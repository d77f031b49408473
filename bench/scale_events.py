"""The segments that the benchmark of scale is about, and the file that hands their events to each side.

    file = { metadata-partition[u16] length[u32] event }       big-endian; the event as Kafka's brokers write it

Every segment is added and finished. The same number of segments is the same file, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from tiergate_client import LeaderEpochs, RemoteLogSegmentMetadata, SegmentId, SegmentState, TopicId, TopicIdPartition
from tiergate_client.values import SegmentQuestion
from tiergate_server.metadata.event_codec import encode_event
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.segments.custom_metadata import CustomMetadataV1

USER_PARTITIONS = 100
METADATA_PARTITIONS = 50
EVENTS_PER_SEGMENT = 2

_OFFSETS_PER_SEGMENT = 1000
_SEGMENTS_PER_EPOCH = 100
_TIME_MS = 1_700_000_000_000
_BATCH = 1000
_HEADER = struct.Struct(">HI")


def write_events(path: Path, *, segments: int) -> None:
    random = Random(0)
    with path.open("wb") as file:
        for number in range(segments):
            added = _segment(number, SegmentId(random.randbytes(16)))
            custom_metadata = CustomMetadataV1(random.randbytes(16).hex()).to_bytes()
            finished = added.step(
                SegmentState.COPY_FINISHED,
                event_timestamp_ms=added.event_timestamp_ms + 1,
                custom_metadata=custom_metadata,
            )
            home = home_of(added.partition)
            for event in (encode_event(added), encode_event(finished)):
                file.write(_HEADER.pack(home, len(event)) + event)


def read_events(path: Path) -> Iterator[list[tuple[int, bytes]]]:
    """Batches of (metadata partition, event), so that whoever takes the time can leave the reading out."""
    batch: list[tuple[int, bytes]] = []
    with path.open("rb") as file:
        while header := file.read(_HEADER.size):
            home, length = _HEADER.unpack(header)
            batch.append((home, file.read(length)))
            if len(batch) == _BATCH:
                yield batch
                batch = []
    yield batch


def questions(*, segments: int, count: int) -> list[SegmentQuestion]:
    """Which segment holds an offset: of segments anywhere, in no order."""
    random = Random(1)
    return [_question(random.randrange(segments)) for _ in range(count)]


@cache
def home_of(partition: TopicIdPartition) -> int:
    return metadata_partition(partition, partition_count=METADATA_PARTITIONS)


@cache
def _user_partitions() -> list[TopicIdPartition]:
    random = Random(2)
    topics = [TopicId(random.randbytes(16)) for _ in range(USER_PARTITIONS // 10)]
    return [
        TopicIdPartition(topic_id, number, f"orders-{position}")
        for position, topic_id in enumerate(topics)
        for number in range(10)
    ]


def _segment(number: int, segment_id: SegmentId) -> RemoteLogSegmentMetadata:
    position, place = divmod(number, USER_PARTITIONS)
    start = position * _OFFSETS_PER_SEGMENT
    epoch, position_in_epoch = divmod(position, _SEGMENTS_PER_EPOCH)
    epochs = {epoch: start}
    if epoch and not position_in_epoch:  # the leader changed in the middle of this one
        epochs = {epoch - 1: start, epoch: start + _OFFSETS_PER_SEGMENT // 2}
    return RemoteLogSegmentMetadata(
        partition=_user_partitions()[place],
        segment_id=segment_id,
        start_offset=start,
        end_offset=start + _OFFSETS_PER_SEGMENT - 1,
        segment_leader_epochs=LeaderEpochs.of(epochs),
        segment_size_bytes=2**30,
        max_timestamp_ms=_TIME_MS + start,
        broker_id=1,
        event_timestamp_ms=_TIME_MS + start,
    )


def _question(number: int) -> SegmentQuestion:
    position, place = divmod(number, USER_PARTITIONS)
    offset = position * _OFFSETS_PER_SEGMENT + _OFFSETS_PER_SEGMENT * 3 // 4
    return SegmentQuestion(_user_partitions()[place], position // _SEGMENTS_PER_EPOCH, offset)
