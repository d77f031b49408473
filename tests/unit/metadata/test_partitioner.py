from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.vectors import topic_id

from support.metadata_events import partitions
from tiergate_client.values import TopicIdPartition
from tiergate_server.metadata.partitioner import java_hash, metadata_partition, murmur2

VECTORS = pytest.mark.parametrize(
    ("topic", "partition", "hash_code", "of_50"),
    [
        ("00112233-4455-6677-8899-aabbccddeeff", 0, -2004288545, 5),
        ("00112233-4455-6677-8899-aabbccddeeff", 1, -2004288544, 31),
        ("00112233-4455-6677-8899-aabbccddeeff", 3, -2004288542, 49),
        ("00000000-0000-0000-0000-0000000000ca", 7, 223920, 31),
    ],
)


def signed(unsigned: int) -> int:
    return unsigned - 2**32 if unsigned >= 2**31 else unsigned


@VECTORS
def test_hash_is_that_of_java(topic: str, partition: int, hash_code: int, of_50: int) -> None:
    assert signed(java_hash(topic_id(topic).raw, partition)) == hash_code


@VECTORS
def test_metadata_partition_is_that_of_kafka(topic: str, partition: int, hash_code: int, of_50: int) -> None:
    subject = TopicIdPartition(topic_id(topic), partition, "any")
    assert metadata_partition(subject, partition_count=50) == of_50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"21", -973932308),
        (b"abc", 479470107),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
    ],
)
def test_murmur2_is_that_of_kafka(text: bytes, expected: int) -> None:
    assert signed(murmur2(text)) == expected


@given(partition=partitions, count=st.integers(1, 1000))
def test_metadata_partition_exists_and_does_not_depend_on_the_name(partition: TopicIdPartition, count: int) -> None:
    renamed = TopicIdPartition(partition.topic_id, partition.partition, "other")
    assert 0 <= metadata_partition(partition, partition_count=count) < count
    assert metadata_partition(renamed, partition_count=count) == metadata_partition(partition, partition_count=count)
