"""Events as a JVM writes them, with the values that they stand for.

The first five were captured from a JVM; the other four are computed examples of the same format.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

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


def topic_id(text: str) -> TopicId:
    return TopicId(uuid.UUID(text).bytes)


ORDERS_7 = TopicIdPartition(topic_id("00000000-0000-0000-0000-0000000000ca"), 7, "orders")
FOO_3 = TopicIdPartition(topic_id("00112233-4455-6677-8899-aabbccddeeff"), 3, "foo")
ORDERS_SEGMENT = SegmentId(uuid.UUID("00000000-0000-0000-0000-0000000000fe").bytes)
FOO_SEGMENT = SegmentId(uuid.UUID("01234567-89ab-cdef-0123-456789abcdef").bytes)

ADD_WITH_CUSTOM = RemoteLogSegmentMetadata(
    partition=ORDERS_7,
    segment_id=ORDERS_SEGMENT,
    start_offset=0,
    end_offset=99,
    segment_leader_epochs=LeaderEpochs.of({0: 0, 1: 50}),
    segment_size_bytes=4096,
    max_timestamp_ms=100,
    broker_id=42,
    event_timestamp_ms=123,
    custom_metadata=bytes.fromhex("01020304"),
)
ADD_NO_CUSTOM = replace(ADD_WITH_CUSTOM, custom_metadata=None)
ADD_TXN_EMPTY = replace(ADD_NO_CUSTOM, txn_index_empty=True)
UPDATE_FINISH = RemoteLogSegmentMetadataUpdate(
    partition=ORDERS_7,
    segment_id=ORDERS_SEGMENT,
    state=SegmentState.COPY_FINISHED,
    event_timestamp_ms=456,
    broker_id=42,
)
PARTITION_DELETE_MARKED = RemotePartitionDeleteMetadata(
    partition=ORDERS_7,
    state=PartitionDeleteState.DELETE_PARTITION_MARKED,
    event_timestamp_ms=789,
    broker_id=42,
)

EXAMPLE_A = RemoteLogSegmentMetadata(
    partition=FOO_3,
    segment_id=FOO_SEGMENT,
    start_offset=100,
    end_offset=199,
    segment_leader_epochs=LeaderEpochs.of({4: 100, 6: 150}),
    segment_size_bytes=2048,
    max_timestamp_ms=1700000000000,
    broker_id=1,
    event_timestamp_ms=1700000001000,
    txn_index_empty=True,
)
EXAMPLE_B = RemoteLogSegmentMetadataUpdate(
    partition=FOO_3,
    segment_id=FOO_SEGMENT,
    state=SegmentState.COPY_FINISHED,
    custom_metadata=bytes.fromhex("cafe"),
    event_timestamp_ms=1700000002000,
    broker_id=1,
)
EXAMPLE_C = RemotePartitionDeleteMetadata(
    partition=FOO_3,
    state=PartitionDeleteState.DELETE_PARTITION_MARKED,
    event_timestamp_ms=1700000003000,
    broker_id=1,
)

EVENTS: Mapping[str, tuple[MetadataEvent, bytes]] = {
    "add_with_custom": (
        ADD_WITH_CUSTOM,
        bytes.fromhex(
            "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00"
            "000000000000000000000000000000630000002a0000000000000064000000000000007b030000000000000000000000"
            "0000000000010000000000000032000000100005010203040000"
        ),
    ),
    "add_no_custom": (
        ADD_NO_CUSTOM,
        bytes.fromhex(
            "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00"
            "000000000000000000000000000000630000002a0000000000000064000000000000007b030000000000000000000000"
            "00000000000100000000000000320000001000000000"
        ),
    ),
    "add_txn_empty": (
        ADD_TXN_EMPTY,
        bytes.fromhex(
            "010000076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00"
            "000000000000000000000000000000630000002a0000000000000064000000000000007b030000000000000000000000"
            "00000000000100000000000000320000001000000001000101"
        ),
    ),
    "update_finish": (
        UPDATE_FINISH,
        bytes.fromhex(
            "010100076f7264657273000000000000000000000000000000ca0000000700000000000000000000000000000000fe00"
            "0000002a00000000000001c8000100"
        ),
    ),
    "partition_delete_marked": (
        PARTITION_DELETE_MARKED,
        bytes.fromhex("010200076f7264657273000000000000000000000000000000ca00000007000000002a00000000000003150000"),
    ),
    "example_a": (
        EXAMPLE_A,
        bytes.fromhex(
            "01000004666f6f00112233445566778899aabbccddeeff00000003000123456789abcdef0123456789abcdef00000000"
            "000000006400000000000000c7000000010000018bcfe568000000018bcfe56be8030000000400000000000000640000"
            "00000600000000000000960000000800000001000101"
        ),
    ),
    "example_b": (
        EXAMPLE_B,
        bytes.fromhex(
            "01010004666f6f00112233445566778899aabbccddeeff00000003000123456789abcdef0123456789abcdef00000000"
            "010000018bcfe56fd003cafe0100"
        ),
    ),
    "example_c": (
        EXAMPLE_C,
        bytes.fromhex("01020004666f6f00112233445566778899aabbccddeeff0000000300000000010000018bcfe573b80000"),
    ),
}

SNAPSHOT_ENTRY = EXAMPLE_A.updated_by(EXAMPLE_B)
SNAPSHOT_ENTRY_BYTES = bytes.fromhex(
    "0103000123456789abcdef0123456789abcdef000000000000006400000000000000c7000000010000018bcfe568000000018bcf"
    "e56fd00300000004000000000000006400000000060000000000000096000000080003cafe0100"
)
