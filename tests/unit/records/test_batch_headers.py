"""The scan of headers finds whole batches, says what they say, and where reading can go on."""

from __future__ import annotations

import pytest

from support.record_batches import MadeBatch, MadeRecord, marker
from tiergate_client.records import BatchHeader, Codec, ControlType, TimestampType, scan_batches

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
