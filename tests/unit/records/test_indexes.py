"""Indexes and snapshots are read as Kafka writes them, and damaged ones are refused."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import StoredDataCorrupt
from tiergate_client.records import (
    AbortedTransaction,
    OffsetIndex,
    ProducerSnapshot,
    ProducerState,
    TimeIndex,
    TransactionIndex,
)
from tiergate_server.kafka_files import indexes, producer_snapshots

DOCUMENTED_ABORT = "00000000000000002328000000000000000500000000000000070000000000000008"
DOCUMENTED_SNAPSHOT = (
    "000180bad1d50000000100000000000023280002000000040000000000000006000000040000018bcfe568050000000dffffffffffffffff"
)


def offset_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def test_documented_offset_entry_is_read() -> None:
    index = OffsetIndex.parse(bytes.fromhex("0000000500001000"), base_offset=50)
    assert (index.offsets, index.positions) == ((55,), (4096,))
    assert [index.floor(offset) for offset in (49, 50, 54, 55, 1000)] == [0, 0, 0, 4096, 4096]


def test_offset_index_of_a_segment_without_entries_points_to_its_beginning() -> None:
    assert OffsetIndex.parse(b"", base_offset=7).floor(9) == 0


def test_offset_entries_end_where_the_preallocated_zeros_begin() -> None:
    content = offset_index((0, 0), (5, 100), (9, 200)) + bytes(80)
    assert OffsetIndex.parse(content, base_offset=10).offsets == (10, 15, 19)
    assert OffsetIndex.parse(bytes(80), base_offset=10).floor(10) == 0


@given(st.sets(st.integers(1, 1000)), st.integers(0, 2000))
def test_offset_floor_is_the_last_entry_that_is_not_above(relative: set[int], asked: int) -> None:
    entries = [(offset, 10 * offset) for offset in sorted(relative)]
    index = OffsetIndex.parse(offset_index(*entries), base_offset=500)
    below = [position for offset, position in entries if 500 + offset <= asked]
    assert index.floor(asked) == (below[-1] if below else 0)


def test_documented_time_entry_is_read() -> None:
    index = TimeIndex.parse(bytes.fromhex("0000018bcfe5680500000006"), base_offset=100)
    assert index.floor(1_700_000_000_005) == index.floor(2**62) == (1_700_000_000_005, 106)
    assert index.floor(1_700_000_000_004) == (-1, 100)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1), st.integers(-5, 1000))
def test_time_floor_is_the_last_entry_that_is_not_later(steps: list[tuple[int, int]], asked: int) -> None:
    entries: list[tuple[int, int]] = []
    time = relative = 1
    for time_step, offset_step in steps:
        time, relative = time + time_step, relative + offset_step
        entries.append((time, relative))
    content = b"".join(indexes.encode_time_entry(base_offset=0, timestamp_ms=t, offset=o) for t, o in entries)
    number = bisect_right([t for t, _ in entries], asked)
    expected = entries[number - 1] if number else (-1, 0)
    assert TimeIndex.parse(content + bytes(24), base_offset=0).floor(asked) == expected


def test_documented_aborted_transaction_is_read() -> None:
    index = TransactionIndex.parse(bytes.fromhex(DOCUMENTED_ABORT))
    assert index.transactions == (AbortedTransaction(9000, 5, 7, 8),)
    assert TransactionIndex.parse(b"").transactions == ()


def test_aborts_are_collected_until_everything_in_the_range_is_decided() -> None:
    entries = [(1, 0, 10, 5), (2, 12, 20, 12), (3, 8, 30, 26), (4, 27, 40, 41)]
    content = b"".join(indexes.AbortedTransaction(*entry).encode() for entry in entries)
    index = TransactionIndex.parse(content)

    def collected(first: int, upper: int) -> tuple[list[int], bool]:
        found = index.collect(first_offset=first, upper_bound_offset=upper)
        return [entry.producer_id for entry in found.transactions], found.is_complete

    assert collected(11, 13) == ([2, 3], True)
    assert collected(0, 5) == ([1], True)
    assert collected(21, 27) == ([3], True)
    assert collected(31, 100) == ([4], False)
    assert collected(41, 100) == ([], False)


def test_documented_producer_snapshot_is_read() -> None:
    snapshot = ProducerSnapshot.parse(bytes.fromhex(DOCUMENTED_SNAPSHOT))
    assert snapshot.producers == (ProducerState(9000, 2, 4, 6, 4, 1_700_000_000_005, 13, -1),)


def test_open_transactions_of_a_snapshot_are_read() -> None:
    written = [
        producer_snapshots.ProducerState(number, 0, 0, 0, 0, 0, 0, first) for number, first in enumerate((-1, 70, 30))
    ]
    snapshot = ProducerSnapshot.parse(producer_snapshots.encode_snapshot(written))
    assert [one.transaction_first_offset for one in snapshot.producers] == [-1, 70, 30]


@pytest.mark.parametrize(
    ("parse", "content", "why"),
    [
        (lambda content: OffsetIndex.parse(content, base_offset=0), bytes(9), "no multiple of 8"),
        (lambda content: TimeIndex.parse(content, base_offset=0), bytes(13), "no multiple of 12"),
        (lambda content: OffsetIndex.parse(content, base_offset=0), offset_index((5, 9), (4, 20)), "at byte 8"),
        (lambda content: OffsetIndex.parse(content, base_offset=0), offset_index((5, 9), (6, 9)), "at byte 8"),
        (lambda content: OffsetIndex.parse(content, base_offset=0), offset_index((-5, 9)), "at byte 0"),
        (lambda content: TimeIndex.parse(content, base_offset=0), struct.pack(">qiqi", 9, 1, 8, 2), "at byte 12"),
        (TransactionIndex.parse, bytes(33), "no multiple of 34"),
        (TransactionIndex.parse, b"\x01" + bytes.fromhex(DOCUMENTED_ABORT)[1:], "version 256"),
        (TransactionIndex.parse, bytes.fromhex(DOCUMENTED_ABORT) * 2, "out of order"),
        (ProducerSnapshot.parse, b"\x00\x01", "2 bytes only"),
        (ProducerSnapshot.parse, b"\x00\x02" + bytes.fromhex(DOCUMENTED_SNAPSHOT)[2:], "version 2"),
        (ProducerSnapshot.parse, bytes.fromhex(DOCUMENTED_SNAPSHOT)[:-1] + b"\x00", "checksum"),
        (ProducerSnapshot.parse, producer_snapshots.encode_snapshot([]) + b"x", "checksum"),
    ],
)
def test_damaged_index_is_refused(parse: object, content: bytes, why: str) -> None:
    assert callable(parse)
    with pytest.raises(StoredDataCorrupt, match=why):
        parse(content)
