"""The vectors of Kafka's formats, byte for byte."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_client.local_log import names, partition_metadata
from tiergate_server.kafka_files.indexes import AbortedTransaction, encode_offset_entry, encode_time_entry
from tiergate_server.kafka_files.producer_snapshots import ProducerState, encode_snapshot
from tiergate_server.kafka_files.record_batches import Record, encode_batch, encode_transaction_marker, varint


def test_batch_is_encoded_like_kafkas() -> None:
    batch = encode_batch(
        [
            Record(1_700_000_000_000, b"k", b"v1"),
            Record(1_700_000_000_005, None, b"v2", (("h", b"x"),)),
        ],
        base_offset=5,
        leader_epoch=7,
    )
    assert batch.content.hex() == (
        "0000000000000005000000480000000702fde865790000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffff"
        "ffffffff0000000212000000026b0476310018000a02010476320202680278"
    )
    assert (batch.last_offset, batch.max_timestamp_ms) == (6, 1_700_000_000_005)


def test_abort_marker_is_encoded_like_kafkas() -> None:
    marker = encode_transaction_marker(
        commit=False,
        base_offset=7,
        leader_epoch=7,
        timestamp_ms=0x018BCFE5680A,
        producer_id=9000,
        producer_epoch=2,
        coordinator_epoch=13,
    )
    assert marker.content.hex() == (
        "000000000000000700000042000000070250d8e4c00030000000000000018bcfe5680a0000018bcfe5680a0000000000002328"
        "0002ffffffff000000012000000008000000000c00000000000d00"
    )


def test_index_entries_are_encoded_like_kafkas() -> None:
    assert encode_offset_entry(base_offset=50, offset=55, position=4096).hex() == "0000000500001000"
    entry = encode_time_entry(base_offset=0, timestamp_ms=0x018BCFE56805, offset=6)
    assert entry.hex() == "0000018bcfe5680500000006"


def test_aborted_transaction_is_encoded_like_kafkas() -> None:
    assert AbortedTransaction(9000, 5, 7, 8).encode().hex() == (
        "00000000000000002328000000000000000500000000000000070000000000000008"
    )


def test_producer_snapshot_is_encoded_like_kafkas() -> None:
    producer = ProducerState(
        producer_id=9000,
        epoch=2,
        last_sequence=4,
        last_offset=6,
        offset_delta=4,
        timestamp_ms=0x018BCFE56805,
        coordinator_epoch=13,
    )
    assert encode_snapshot([producer]).hex() == (
        "000180bad1d5000000010000000000002328000200000004000000000000000600000004"
        "0000018bcfe568050000000dffffffffffffffff"
    )


@given(
    st.lists(
        st.builds(
            Record,
            timestamp_ms=st.integers(0, 2**53 + 1),
            key=st.none() | st.binary(max_size=200),
            value=st.none() | st.binary(max_size=200),
            headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 2**62),
)
def test_every_batch_covers_itself_with_its_length_and_checksum(records: list[Record], base_offset: int) -> None:
    batch = encode_batch(records, base_offset=base_offset, leader_epoch=3)
    assert int.from_bytes(batch.content[8:12], "big") == len(batch.content) - 12
    assert int.from_bytes(batch.content[17:21], "big") == crc32c(batch.content[21:])
    assert batch.last_offset == base_offset + len(records) - 1


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_read_back_by_an_independent_reader(number: int) -> None:
    encoded = varint(number)
    assert all(byte & 0x80 for byte in encoded[:-1])
    assert not encoded[-1] & 0x80
    raw = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))
    assert (raw >> 1 if raw % 2 == 0 else -(raw >> 1) - 1) == number


def test_partition_metadata_is_read_back() -> None:
    topic_id = TopicId.random()
    content = partition_metadata.encode(topic_id)
    assert content == f"version: 0\ntopic_id: {topic_id}\n".encode()
    assert partition_metadata.decode(content) == topic_id
    assert partition_metadata.decode(content.rstrip(b"\n")) == topic_id


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        b"version: 0\n",
        b"version: 0\ntopic_id: x\n",
        b"\xff\xfe",
    ],
)
def test_partition_metadata_is_refused_when_it_is_not_understood(content: bytes) -> None:
    with pytest.raises(InvalidField):
        partition_metadata.decode(content)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("orders-eu-12", ("orders-eu", 12)),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-0.5d1f-delete", None),
    ],
)
def test_directory_names_hold_topic_and_partition(name: str, expected: tuple[str, int] | None) -> None:
    assert names.topic_and_partition_of(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", 42),
        ("42.log", None),
        ("00000000000000000042.log.deleted", None),
        ("00000000000000000042.log.cleaned", None),
        ("00000000000000000042.index", None),
    ],
)
def test_only_whole_log_names_have_a_base_offset(name: str, expected: int | None) -> None:
    assert names.base_offset_of_log(name) == expected
