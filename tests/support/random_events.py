"""Metadata events from a seeded generator, thousands a second: everything that the formats can carry, edges often.

`metadata_events` draws the like for hypothesis, which shrinks what fails but is too slow for such numbers.
"""

from __future__ import annotations

import string
from random import Random

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.metadata.event_codec import MetadataEvent

_NAME_CHARACTERS = string.ascii_letters + string.digits + "._-"
_LONGEST_NAME = 249
# Lengths around which the number of bytes that say the length changes, and some far above any limit of Kafka's.
_CUSTOM_LENGTHS = (1, 2, 126, 127, 128, 129, 300, 16382, 16383, 16384, 70000)


def random_event(random: Random) -> MetadataEvent:
    kind = random.random()
    if kind < 0.5:
        return _segment(random)
    if kind < 0.85:
        return RemoteLogSegmentMetadataUpdate(
            partition=random_partition(random),
            segment_id=SegmentId(_id(random)),
            state=random.choice(list(SegmentState)),
            custom_metadata=_custom_metadata(random),
            event_timestamp_ms=_integer(random, 64),
            broker_id=_integer(random, 32),
        )
    return RemotePartitionDeleteMetadata(
        partition=random_partition(random),
        state=random.choice(list(PartitionDeleteState)),
        event_timestamp_ms=_integer(random, 64),
        broker_id=_integer(random, 32),
    )


def random_partition(random: Random) -> TopicIdPartition:
    length = random.choice((1, 126, 127, 128, _LONGEST_NAME, random.randint(1, _LONGEST_NAME)))
    name = "".join(random.choices(_NAME_CHARACTERS, k=length))
    return TopicIdPartition(
        topic_id=TopicId(_id(random)),
        partition=_natural(random, 32),
        topic="..." if name in (".", "..") else name,
    )


def _segment(random: Random) -> RemoteLogSegmentMetadata:
    start_offset, end_offset = sorted((_natural(random, 64), _natural(random, 64)))
    epoch_count = random.choice((*[1] * 12, 2, 2, 3, 4, 5, random.randint(1, 300)))
    return RemoteLogSegmentMetadata(
        partition=random_partition(random),
        segment_id=SegmentId(_id(random)),
        start_offset=start_offset,
        end_offset=end_offset,
        segment_leader_epochs=LeaderEpochs.of({_integer(random, 32): _integer(random, 64) for _ in range(epoch_count)}),
        segment_size_bytes=_integer(random, 32),
        max_timestamp_ms=_integer(random, 64),
        broker_id=_integer(random, 32),
        event_timestamp_ms=_integer(random, 64),
        custom_metadata=_custom_metadata(random),
        state=random.choice(list(SegmentState)),
        txn_index_empty=random.random() < 0.5,
    )


def _custom_metadata(random: Random) -> bytes | None:
    kind = random.random()
    if kind < 0.3:
        return None
    if kind < 0.45:
        return b""
    return random.randbytes(random.randint(1, 128) if kind < 0.97 else random.choice(_CUSTOM_LENGTHS))


def _id(random: Random) -> bytes:
    return random.choice((bytes(16), b"\xff" * 16)) if random.random() < 0.02 else random.randbytes(16)


def _integer(random: Random, bits: int) -> int:
    highest = (1 << bits - 1) - 1
    if random.random() < 0.3:
        return random.choice((-highest - 1, -2, -1, 0, 1, highest))
    return random.getrandbits(random.randint(1, bits - 1)) * random.choice((-1, 1))


def _natural(random: Random, bits: int) -> int:
    value = _integer(random, bits)
    return value if value >= 0 else ~value
