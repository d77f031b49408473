"""Offsets of a stream in the form that Spark keeps in checkpoints: Kafka's offset JSON, `{"topic":{"0":123}}`."""

from __future__ import annotations

from typing import Any, TypeAlias

from tiergate_client.errors import InvalidField
from tiergate_spark.offsets import PartitionNumbers, TopicPartition, offsets_by_topic

StreamOffset: TypeAlias = dict[str, Any]


def stream_offset(numbers: PartitionNumbers) -> StreamOffset:
    """Always in the same order: Spark compares the texts."""
    return dict(offsets_by_topic(numbers))


def partition_numbers(offset: StreamOffset) -> dict[TopicPartition, int]:
    """Raises InvalidField for what no source of Kafka's records wrote."""
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, dict):
            raise _not_ours(offset)
        for partition, number in partitions.items():
            if not (partition.isdecimal() and partition.isascii()) or type(number) is not int or number < 0:
                raise _not_ours(offset)
            numbers[topic, int(partition)] = number
    return numbers


def _not_ours(offset: StreamOffset) -> InvalidField:
    return InvalidField.of(
        "checkpoint",
        f'{str(offset)[:200]} is no offset such as {{"topic":{{"0":123}}}}; give this query a checkpoint of its own',
    )
