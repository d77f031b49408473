"""The scan of headers finds whole batches, says what they say, and where reading can go on."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.record_batches import MadeBatch, MadeRecord, marker
from tiergate_client.batch_layout import HEADER
from tiergate_client.records import BatchHeader, Codec, ControlType, TimestampType, scan_batches
from tiergate_client.records.batch_walking import walk_batches
from tiergate_client.records.engines import engine

MADE = MadeBatch(
    (MadeRecord(0), MadeRecord(4)),
    base_offset=1000,
    attributes=0x08 | 0x10 | 0x40 | Codec.ZSTD,
    base_timestamp_ms=-5,
    max_timestamp_ms=77,
    producer_id=9000,
    producer_epoch=3,
    last_offset_delta=9,
)


def test_header_says_what_was_written() -> None:
    content = MADE.encode()
    (header,) = scan_batches(content, base_position=500)
    assert header == BatchHeader(
        position=500,
        size_bytes=len(content),
        base_offset=1000,
        last_offset=1009,
        leader_epoch=7,
        attributes=0x5C,
        base_timestamp_ms=-5,
        max_timestamp_ms=77,
        producer_id=9000,
        producer_epoch=3,
        base_sequence=-1,
        record_count=2,
        control_type=None,
    )
    assert header.codec is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms == -5


def test_plain_batch_has_neither_horizon_nor_transaction() -> None:
    (header,) = scan_batches(MadeBatch((MadeRecord(0),)).encode())
    assert header.delete_horizon_ms is None
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert header.codec is Codec.NONE


@pytest.mark.parametrize("kind", [*ControlType, 6, 99])
def test_control_batch_tells_its_type(kind: int) -> None:
    (header,) = scan_batches(marker(kind, base_offset=3, producer_id=9).encode())
    assert header.is_control
    assert header.control_type == kind


@pytest.mark.parametrize("cut", [0, 1, 16, 17, 60, 61, 70])
def test_scan_ends_before_a_batch_that_is_cut_and_says_where(cut: int) -> None:
    whole = MADE.encode()
    scanned = scan_batches(whole + whole + whole[:cut], base_position=100)
    assert len(scanned) == 2
    assert scanned.end_position == 100 + 2 * len(whole)
    assert scanned.defect is None
    assert [header.position for header in scanned] == [100, 100 + len(whole)]


def test_scan_ends_before_what_is_no_batch() -> None:
    whole = MADE.encode()
    scanned = scan_batches(whole + bytes(100))
    assert [header.base_offset for header in scanned] == [1000]
    assert scanned.defect is not None
    assert scanned.defect.position == scanned.end_position == len(whole)


def test_nothing_is_scanned_in_nothing() -> None:
    scanned = scan_batches(b"")
    assert (list(scanned), scanned.end_position, scanned.defect) == ([], 0, None)


def test_batches_touch_the_offsets_between_their_first_and_their_last() -> None:
    content = MADE.encode() + MADE.but(base_offset=1010).encode() + MADE.but(base_offset=1030).encode()
    scanned = scan_batches(content)

    def touching(start: int, stop: int) -> list[bool]:
        found: list[bool] = scanned.touching(start, stop).tolist()
        return found

    assert touching(0, 2000) == [True, True, True]
    assert touching(0, 1000) == touching(1040, 2000) == touching(1020, 1030) == [False, False, False]
    assert touching(0, 1001) == touching(1009, 1010) == [True, False, False]
    assert touching(1009, 1011) == [True, True, False]
    assert touching(1019, 1031) == [False, True, True]


def _edges(bits: int) -> st.SearchStrategy[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(least, most) | st.integers(-2, 70) | st.sampled_from([least, least + 1, most - 1, most])


@st.composite
def _headers(draw: st.DrawFn) -> bytes:
    """A batch, some of whose fields are anything."""
    body = draw(st.binary(max_size=20))
    fields = [1000, 49 + len(body), 7, 2, 2**32 - 9, 0, 9, 11, 2**40, 2**33 + 13, 17, 19, draw(st.integers(0, 10))]
    bits = [64, 32, 32, 8, 32, 16, 32, 64, 64, 64, 16, 32, 32]
    for number in draw(st.sets(st.sampled_from(range(13)), max_size=2)):
        fields[number] = draw(_edges(bits[number]))
    fields[4] &= 0xFFFFFFFF  # the checksum has no sign
    return HEADER.pack(*fields) + body


@given(st.lists(_headers(), max_size=5), st.integers(0, 90))
def test_compiled_and_plain_walk_find_the_same(made: list[bytes], cut: int) -> None:
    content = b"".join(made)
    data = np.frombuffer(content[: max(0, len(content) - cut)], np.uint8)
    compiled, plain = engine("numba").walk_batches(data), walk_batches(data)
    assert compiled.table.tolist() == plain.table.tolist()
    assert (compiled.end, compiled.is_sound) == (plain.end, plain.is_sound)


@pytest.mark.parametrize(
    ("at", "kind", "value", "reason"),
    [
        (0, ">q", -1, "makes no sense"),
        (0, ">q", 2**63 - 1, "makes no sense"),
        (8, ">i", 48, "its length is 48"),
        (16, ">b", 1, "old format 1"),
        (16, ">b", 3, "its format is 3"),
        (21, ">h", 5, "its codec is 5"),
        (23, ">i", -1, "makes no sense"),
        (57, ">i", -1, "makes no sense"),
        (57, ">i", 11, "makes no sense"),
        (57, ">i", 0, "makes no sense"),
    ],
)
def test_header_that_makes_no_sense_is_named(at: int, kind: str, value: int, reason: str) -> None:
    whole = MadeBatch((MadeRecord(0), MadeRecord(9)), base_offset=1000, last_offset_delta=9).encode()
    changed = bytearray(whole)
    struct.pack_into(kind, changed, at, value)
    for walk in (engine("numba").walk_batches, walk_batches):
        scanned = scan_batches(whole + changed, base_position=100, walk=walk)
        assert [header.position for header in scanned] == [100]
        assert scanned.defect is not None
        assert scanned.defect.position == scanned.end_position == 100 + len(whole)
        assert reason in scanned.defect.reason
