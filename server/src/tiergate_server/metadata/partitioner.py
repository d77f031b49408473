"""Which metadata partition holds the events of a user partition: exactly Kafka's answer, since brokers share the log.

The topic id's halves and the partition number are hashed as Java hashes them, and that hash is spread by murmur2.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from tiergate_client.ids import TopicId
from tiergate_client.values import TopicIdPartition

_UINT32 = 0xFFFFFFFF
_INT32_MAX = 0x7FFFFFFF
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_FACTOR = 0x5BD1E995


def metadata_partition(partition: TopicIdPartition, *, partition_count: int) -> int:
    return metadata_partition_of(partition.topic_id, partition.partition, partition_count=partition_count)


def metadata_partition_of(topic_id: TopicId, partition: int, *, partition_count: int) -> int:
    spread = _spread_hash(topic_id.raw, partition)
    return (spread & _INT32_MAX) % partition_count  # the sign bit is cleared: not the same as the absolute value


@lru_cache(maxsize=65536)
def _spread_hash(topic_id: bytes, partition: int) -> int:
    return murmur2(struct.pack(">I", java_hash(topic_id, partition)))


def java_hash(topic_id: bytes, partition: int) -> int:
    """Java's `Objects.hash(low, high, partition)` as an unsigned int32. The low half comes first."""
    high, low = struct.unpack(">QQ", topic_id)
    result = 1
    for item in (_hash_of_long(low), _hash_of_long(high), partition):
        result = (31 * result + item) & _UINT32
    return result


def murmur2(data: bytes) -> int:
    """The variant of MurmurHash2 in Kafka's default partitioner, as an unsigned int32."""
    whole = len(data) & ~3
    result = _MURMUR2_SEED ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _MURMUR2_FACTOR & _UINT32
        mixed = (mixed ^ mixed >> 24) * _MURMUR2_FACTOR & _UINT32
        result = result * _MURMUR2_FACTOR & _UINT32 ^ mixed
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * _MURMUR2_FACTOR & _UINT32
    result = (result ^ result >> 13) * _MURMUR2_FACTOR & _UINT32
    return result ^ result >> 15


def _hash_of_long(value: int) -> int:
    return (value ^ value >> 32) & _UINT32
