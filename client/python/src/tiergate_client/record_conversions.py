"""Read splits to and from messages and their stored bytes; needs the extra `records`. Records are `_records`' own."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from google.protobuf.message import DecodeError

from tiergate.v1 import records_pb2
from tiergate_client.conversions import (
    inside,
    metadata_from_proto,
    partition_from_proto,
    partition_to_proto,
    write_metadata,
)
from tiergate_client.errors import InvalidField, NotOffered
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.transaction_index import AbortedTransaction
from tiergate_client.values import TopicIdPartition

SPLIT_VERSION: Final = 1


def split_to_proto(split: ReadSplit) -> records_pb2.ReadSplit:
    message = records_pb2.ReadSplit(version=SPLIT_VERSION, partition=partition_to_proto(split.partition))
    for one in split.ranges:
        part = message.ranges.add(
            start_offset=one.start_offset,
            stop_offset=one.stop_offset,
            start_position=one.start_position,
            stop_position=one.stop_position,
        )
        write_metadata(one.segment, part.segment)
    message.aborted.extend(map(aborted_to_proto, split.aborted))
    return message


def aborted_to_proto(aborted: AbortedTransaction) -> records_pb2.AbortedTransaction:
    return records_pb2.AbortedTransaction(
        producer_id=aborted.producer_id,
        first_offset=aborted.first_offset,
        last_offset=aborted.last_offset,
        last_stable_offset=aborted.last_stable_offset,
    )


def split_from_proto(message: records_pb2.ReadSplit) -> ReadSplit:
    """Raises NotOffered for a newer release's split, InvalidField for one that breaks a rule."""
    if message.version > SPLIT_VERSION:
        raise NotOffered(
            f"the read split has version {message.version} and this release reads up to {SPLIT_VERSION}: "
            "read it with the release that planned it, or plan the read again"
        )
    if message.version < 1:
        raise InvalidField.of("version", f"{message.version} is no version of a read split")
    if not message.ranges:
        raise InvalidField.of("ranges", "a read split has at least one range")
    partition = partition_from_proto(message.partition)
    ranges = tuple(_range_from_proto(part, number, partition) for number, part in enumerate(message.ranges))
    if any(before.stop_offset > behind.start_offset for before, behind in pairwise(ranges)):
        raise InvalidField.of("ranges", "a range begins before the one in front of it has ended")
    return ReadSplit(
        partition,
        ranges,
        tuple(
            AbortedTransaction(it.producer_id, it.first_offset, it.last_offset, it.last_stable_offset)
            for it in message.aborted
        ),
    )


def split_to_bytes(split: ReadSplit) -> bytes:
    return split_to_proto(split).SerializeToString()


def split_from_bytes(stored: bytes) -> ReadSplit:
    """Raises NotOffered for a newer release's split, InvalidField for bytes that are none."""
    try:
        message = records_pb2.ReadSplit.FromString(stored)
    except DecodeError:
        raise InvalidField.of("split", f"these {len(stored)} bytes are no read split") from None
    with inside("split"):
        return split_from_proto(message)


def _range_from_proto(message: records_pb2.SegmentRange, number: int, partition: TopicIdPartition) -> SegmentRange:
    with inside(f"ranges[{number}]"):
        segment = metadata_from_proto(message.segment, "segment")
        # The name too, which no comparison of partitions looks at: readers may be allowed to read by it.
        if segment.partition != partition or segment.partition.topic != partition.topic:
            raise InvalidField.of("segment", f"it is of {segment.partition}, and the split of {partition}")
        return SegmentRange(
            segment,
            start_offset=message.start_offset,
            stop_offset=message.stop_offset,
            start_position=message.start_position,
            stop_position=message.stop_position,
        )
