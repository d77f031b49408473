"""Headers are believed only when their batch is sound, and only of batches with offsets that are wanted."""

from __future__ import annotations

import pytest

from support.log_in_memory import LogsInMemory, log_metadata
from support.record_batches import MadeBatch, MadeRecord
from tiergate_client.errors import CorruptBatch
from tiergate_client.records.header_scan import scan_headers
from tiergate_client.records.read_split import SegmentRange

PER_BATCH = 10
BATCHES = [
    MadeBatch(tuple(MadeRecord(delta) for delta in range(PER_BATCH)), base_offset=base).encode()
    for base in range(0, 60, PER_BATCH)
]
LOG = b"".join(BATCHES)
BATCH_BYTES = len(BATCHES[0])
METADATA = log_metadata(LOG, start_offset=0, end_offset=59)
IN_ONE, EACH_ALONE = 1 << 20, 1


def damaged(number: int, at: int = 40) -> bytes:
    """One batch has another max timestamp, or what is there."""
    changed = bytearray(LOG)
    changed[number * BATCH_BYTES + at] ^= 1
    return bytes(changed)


def scanned(
    log: bytes, start: int, stop: int, *, chunk_bytes: int = IN_ONE, check_crc: bool = True
) -> tuple[list[int], CorruptBatch | None]:
    """The base offsets that are given, and the error behind them."""
    wanted = SegmentRange(METADATA, start, stop, 0, len(LOG))
    logs = LogsInMemory({METADATA: log})
    given: list[int] = []
    error = None
    try:
        for batches in scan_headers(wanted, logs.storage, chunk_bytes=chunk_bytes, check_crc=check_crc):
            given += [header.base_offset for header in batches]
    except CorruptBatch as refused:
        error = refused
    assert not logs.held_streams
    return given, error


@pytest.mark.parametrize("chunk_bytes", [IN_ONE, EACH_ALONE])
def test_batches_with_offsets_that_are_wanted_are_given(chunk_bytes: int) -> None:
    assert scanned(LOG, 0, 60, chunk_bytes=chunk_bytes) == ([0, 10, 20, 30, 40, 50], None)
    assert scanned(LOG, 19, 31, chunk_bytes=chunk_bytes) == ([10, 20, 30], None)
    assert scanned(LOG, 20, 30, chunk_bytes=chunk_bytes) == ([20], None)
    assert scanned(LOG, 60, 60, chunk_bytes=chunk_bytes) == ([], None)


@pytest.mark.parametrize("chunk_bytes", [IN_ONE, EACH_ALONE])
def test_first_wrong_checksum_is_an_error_behind_the_batches_before_it(chunk_bytes: int) -> None:
    given, error = scanned(damaged(3), 5, 60, chunk_bytes=chunk_bytes)
    assert given == [0, 10, 20]
    assert error is not None
    assert "checksum" in error.message
    assert error.details == {"segment": str(METADATA.segment_id), "position": str(3 * BATCH_BYTES)}


def test_checksums_of_batches_that_share_the_bytes_only_do_not_count() -> None:
    assert scanned(damaged(3), 0, 30) == ([0, 10, 20], None)
    assert scanned(damaged(3), 40, 60) == ([40, 50], None)


def test_wrong_checksum_is_told_before_what_is_no_batch_behind_it() -> None:
    log = bytearray(damaged(2))
    log[4 * BATCH_BYTES + 16] = 9
    given, error = scanned(bytes(log), 0, 60)
    assert (given, error and error.details["position"]) == ([0, 10], str(2 * BATCH_BYTES))
    given, error = scanned(bytes(log), 0, 60, check_crc=False)
    assert (given, error and error.details["position"]) == ([0, 10, 20, 30], str(4 * BATCH_BYTES))


def test_checksums_can_be_left_to_others() -> None:
    assert scanned(damaged(3), 0, 60, check_crc=False) == ([0, 10, 20, 30, 40, 50], None)
