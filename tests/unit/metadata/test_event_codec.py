from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unit.metadata.vectors import ADD_NO_CUSTOM, ADD_WITH_CUSTOM, EVENTS, EXAMPLE_A, EXAMPLE_B, EXAMPLE_C, FOO_3

from support.metadata_events import events
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.values import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tiergate_server.metadata.event_codec import CorruptEvent, MetadataEvent, UnknownEvent, decode_event, encode_event

VECTORS = pytest.mark.parametrize(("event", "encoded"), EVENTS.values(), ids=EVENTS.keys())
A, B, C = (EVENTS[name][1] for name in ("example_a", "example_b", "example_c"))

FRAME_VERSION = 0
PARTITION_TAGS = 27
SEGMENT_ID_TAGS = 44
EPOCH_COUNT = 81
FIRST_EPOCH = 82
UNKNOWN_TAG = bytes.fromhex("010502beef")


def edited(data: bytes, position: int, replacement: bytes, *, length: int = 1) -> bytes:
    return data[:position] + replacement + data[position + length :]


def same(one: MetadataEvent, other: MetadataEvent) -> bool:
    """Equal, also in the topic's name, which partitions do not compare."""
    return one == other and one.partition.topic == other.partition.topic


@VECTORS
def test_encoding_gives_the_bytes_of_the_jvm(event: MetadataEvent, encoded: bytes) -> None:
    assert encode_event(event).hex() == encoded.hex()


@VECTORS
def test_decoding_gives_the_values_of_the_jvm(event: MetadataEvent, encoded: bytes) -> None:
    assert same(decode_event(encoded), event)


@given(event=events)
def test_decoding_inverts_encoding(event: MetadataEvent) -> None:
    assert same(decode_event(encode_event(event)), event)


@VECTORS
def test_truncation_at_any_byte_is_corrupt(event: MetadataEvent, encoded: bytes) -> None:
    for length in range(1, len(encoded)):
        with pytest.raises(CorruptEvent):
            decode_event(encoded[:length])


@VECTORS
def test_trailing_bytes_are_corrupt(event: MetadataEvent, encoded: bytes) -> None:
    with pytest.raises(CorruptEvent, match="1 more follow"):
        decode_event(encoded + b"\0")


@given(data=st.binary() | st.binary().map(lambda tail: b"\1\0\0" + tail) | st.binary().map(lambda tail: A[:4] + tail))
def test_random_bytes_are_an_event_or_a_documented_error(data: bytes) -> None:
    try:
        event = decode_event(data)
    except (UnknownEvent, CorruptEvent):
        return
    assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata)


@given(encoded=st.sampled_from([encoded for _, encoded in EVENTS.values()]), data=st.data())
def test_a_damaged_byte_is_an_event_or_a_documented_error(encoded: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(encoded) - 1))
    damaged = edited(encoded, position, bytes((data.draw(st.integers(0, 255)),)))
    try:
        event = decode_event(damaged)
    except (UnknownEvent, CorruptEvent):
        return
    assert same(decode_event(encode_event(event)), event)


def test_empty_value_is_unknown() -> None:
    with pytest.raises(UnknownEvent):
        decode_event(b"")


@pytest.mark.parametrize("header", ["010300", "010400", "01ff0100", "010001", "010201"])
def test_unknown_key_or_version_is_unknown_whatever_follows(header: str) -> None:
    with pytest.raises(UnknownEvent, match="is not known"):
        decode_event(bytes.fromhex(header) + b"whatever")


@pytest.mark.parametrize("frame_version", ["00", "02", "7f", "8101"])
def test_other_frame_version_is_corrupt(frame_version: str) -> None:
    with pytest.raises(CorruptEvent, match="frame version"):
        decode_event(edited(A, FRAME_VERSION, bytes.fromhex(frame_version)))


def test_varint_with_needless_groups_is_read_like_the_jvm_does() -> None:
    assert decode_event(edited(A, FRAME_VERSION, bytes.fromhex("8180808000"))) == EXAMPLE_A


@pytest.mark.parametrize("varint", ["818080808000", "ffffffffffff01", "ffffffff0f", "8080808008"])
def test_oversized_varint_is_corrupt(varint: str) -> None:
    with pytest.raises(CorruptEvent, match="varint"):
        decode_event(edited(A, FRAME_VERSION, bytes.fromhex(varint)))


@pytest.mark.parametrize(
    ("encoded", "position", "event"),
    [
        (A, PARTITION_TAGS, EXAMPLE_A),
        (A, SEGMENT_ID_TAGS, EXAMPLE_A),
        (A, FIRST_EPOCH + 12, EXAMPLE_A),
        (A, FIRST_EPOCH + 25, EXAMPLE_A),
        (A, len(A) - 4, replace(EXAMPLE_A, txn_index_empty=False)),
        (B, PARTITION_TAGS, EXAMPLE_B),
        (B, SEGMENT_ID_TAGS, EXAMPLE_B),
        (B, len(B) - 1, EXAMPLE_B),
        (C, PARTITION_TAGS, EXAMPLE_C),
        (C, len(C) - 1, EXAMPLE_C),
    ],
)
def test_unknown_tag_is_skipped_in_every_struct(encoded: bytes, position: int, event: MetadataEvent) -> None:
    length = 4 if encoded[position] else 1
    assert decode_event(edited(encoded, position, UNKNOWN_TAG, length=length)) == event


def test_txn_index_empty_is_read_beside_an_unknown_tag() -> None:
    # An unreleased Kafka writes BrokerLeaderEpoch as tag 1.
    assert decode_event(A[:-4] + bytes.fromhex("02000101010400000005")) == EXAMPLE_A


@pytest.mark.parametrize(("payload", "expected"), [("00", False), ("01", True), ("ff", True)])
def test_txn_index_empty_is_any_byte_but_zero(payload: str, expected: bool) -> None:
    event = decode_event(A[:-1] + bytes.fromhex(payload))
    assert event == replace(EXAMPLE_A, txn_index_empty=expected)


@pytest.mark.parametrize("tagged_fields", ["010000", "0100020101"])
def test_txn_index_empty_of_another_size_is_corrupt(tagged_fields: str) -> None:
    with pytest.raises(CorruptEvent, match="TxnIndexEmpty"):
        decode_event(A[:-4] + bytes.fromhex(tagged_fields))


@pytest.mark.parametrize(
    ("custom_metadata", "encoded"), [(None, b"\0"), (b"", b"\1"), (b"x", b"\2x"), (b"y" * 128, b"\x81\1" + b"y" * 128)]
)
def test_custom_metadata_keeps_null_empty_and_long_apart(custom_metadata: bytes | None, encoded: bytes) -> None:
    event = replace(ADD_NO_CUSTOM, custom_metadata=custom_metadata)
    assert encode_event(event) == encode_event(ADD_NO_CUSTOM)[:-3] + encoded + b"\0\0"
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("max_timestamp_ms", [-1, -(2**63), 2**63 - 1])
def test_max_timestamp_may_be_negative_or_huge(max_timestamp_ms: int) -> None:
    event = replace(ADD_WITH_CUSTOM, max_timestamp_ms=max_timestamp_ms)
    assert decode_event(encode_event(event)) == event


def test_epochs_out_of_order_are_put_in_order() -> None:
    first, second = A[FIRST_EPOCH : FIRST_EPOCH + 13], A[FIRST_EPOCH + 13 : FIRST_EPOCH + 26]
    assert decode_event(edited(A, FIRST_EPOCH, second + first, length=26)) == EXAMPLE_A


def test_repeated_epoch_counts_with_its_last_offset() -> None:
    repeated = struct.pack(">iqB", 4, 120, 0) + struct.pack(">iqB", 4, 130, 0)
    event = decode_event(edited(A, FIRST_EPOCH, repeated, length=26))
    assert event == replace(EXAMPLE_A, segment_leader_epochs=LeaderEpochs.of({4: 130}))


@pytest.mark.parametrize(("encoded", "position"), [(A, len(A) - 5), (B, len(B) - 2)], ids=["segment", "update"])
@pytest.mark.parametrize("state", [4, 127, 255])
def test_unknown_segment_state_is_corrupt(encoded: bytes, position: int, state: int) -> None:
    with pytest.raises(CorruptEvent, match="not a segment state"):
        decode_event(edited(encoded, position, bytes((state,))))


def test_unknown_partition_delete_state_is_corrupt() -> None:
    with pytest.raises(CorruptEvent, match="not a state"):
        decode_event(edited(C, len(C) - 2, b"\3"))


@pytest.mark.parametrize(
    ("position", "replacement", "length", "complaint"),
    [
        (3, b"\0", 4, "null"),
        (3, b"\1", 4, "no topic name"),
        (4, b"f/o", 3, "no topic name"),
        (4, b"f\xffo", 3, "UTF-8"),
        (23, struct.pack(">i", -1), 4, "partition"),
        (45, struct.pack(">q", -1), 8, "start_offset"),
        (53, struct.pack(">q", 99), 8, "end_offset"),
        (EPOCH_COUNT, b"\0", 27, "null"),
        (EPOCH_COUNT, b"\1", 27, "at least one leader epoch"),
    ],
)
def test_value_against_the_rules_is_corrupt(position: int, replacement: bytes, length: int, complaint: str) -> None:
    with pytest.raises(CorruptEvent, match=complaint):
        decode_event(edited(A, position, replacement, length=length))


@pytest.mark.parametrize("count", ["ffffffff07", "04"])
def test_more_epochs_announced_than_present_is_corrupt(count: str) -> None:
    with pytest.raises(CorruptEvent):
        decode_event(edited(A, EPOCH_COUNT, bytes.fromhex(count)))


def test_longest_topic_name_survives() -> None:
    partition = TopicIdPartition(FOO_3.topic_id, 3, "t" * 249)
    event = decode_event(encode_event(replace(EXAMPLE_C, partition=partition)))
    assert event.partition.topic == "t" * 249


@example(epoch_count=0x7E)
@example(epoch_count=0x7F)
@given(epoch_count=st.integers(1, 400))
def test_epoch_count_of_any_varint_length_survives(epoch_count: int) -> None:
    epochs = LeaderEpochs(tuple((epoch, 100 + epoch) for epoch in range(epoch_count)))
    event = replace(EXAMPLE_A, segment_leader_epochs=epochs)
    assert decode_event(encode_event(event)) == event


def test_more_bytes_announced_than_left_is_corrupt() -> None:
    with pytest.raises(CorruptEvent, match="126 bytes are announced"):
        decode_event(edited(B, len(B) - 5, b"\x7f"))
