"""Aborted batches are left out, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from support.record_batches import MadeBatch, MadeRecord, marker
from tiergate_client.records import AbortedTransaction, ControlType, ReadCommitted, decode_batches, scan_batches

TRANSACTIONAL = 0x10


def data(base_offset: int, producer_id: int, *, attributes: int = TRANSACTIONAL, count: int = 2) -> bytes:
    records = tuple(MadeRecord(delta) for delta in range(count))
    return MadeBatch(records, base_offset=base_offset, attributes=attributes, producer_id=producer_id).encode()


def end(kind: int, base_offset: int, producer_id: int) -> bytes:
    return marker(kind, base_offset=base_offset, producer_id=producer_id).encode()


def aborted(producer_id: int, first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, last, last + 1)


def offsets(log: bytes, *transactions: AbortedTransaction) -> list[int]:
    decoded = decode_batches(log, columns=("offset",), keep=ReadCommitted(transactions).kept)
    return [offset for batch in decoded for offset in batch["offset"].to_pylist()]


def test_aborted_batches_are_left_out_and_those_of_others_are_given() -> None:
    log = data(0, 7) + data(2, 8) + data(4, 7) + end(ControlType.ABORT, 6, 7) + end(ControlType.COMMIT, 7, 8)
    assert offsets(log, aborted(7, 0, 6)) == [2, 3]
    assert offsets(log) == [0, 1, 2, 3, 4, 5]


def test_producer_is_given_again_behind_its_abort_marker() -> None:
    log = data(0, 7) + end(ControlType.ABORT, 2, 7) + data(3, 7) + end(ControlType.COMMIT, 5, 7)
    assert offsets(log, aborted(7, 0, 2)) == [3, 4]


def test_commit_marker_and_unknown_markers_do_not_end_an_abort() -> None:
    log = data(0, 7) + end(99, 2, 7) + end(ControlType.COMMIT, 3, 7) + data(4, 7) + end(ControlType.ABORT, 6, 7)
    assert offsets(log, aborted(7, 0, 6)) == []


def test_data_without_transaction_of_the_same_producer_is_given() -> None:
    log = data(0, 7, attributes=0) + data(2, 7)
    assert offsets(log, aborted(7, 0, 9)) == [0, 1]


def test_transaction_counts_from_the_batch_on_that_holds_its_first_offset() -> None:
    log = data(0, 7, count=10) + data(10, 7)
    assert offsets(log, aborted(7, 10, 19)) == list(range(10))
    assert offsets(log, aborted(7, 9, 19)) == []


def test_transaction_that_began_before_the_range_is_known_from_its_first_batch_on() -> None:
    assert offsets(data(100, 7) + end(ControlType.ABORT, 102, 7) + data(103, 7), aborted(7, 3, 102)) == [103, 104]


def test_two_transactions_of_one_producer_and_duplicates_are_kept_apart() -> None:
    first, second = aborted(7, 0, 2), aborted(7, 5, 7)
    log = data(0, 7) + end(ControlType.ABORT, 2, 7) + data(3, 7, count=1) + end(ControlType.COMMIT, 4, 7)
    log += data(5, 7) + end(ControlType.ABORT, 7, 7) + data(8, 7)
    assert offsets(log, second, first, first, second) == [3, 8, 9]


def test_bytes_with_the_marker_may_be_left_out() -> None:
    filtering = ReadCommitted([aborted(7, 0, 5), aborted(9, 20, 30)])
    pieces = [data(6, 7), data(0, 7) + data(2, 7) + data(4, 8, count=1), data(20, 7) + data(22, 9)]
    kept = [filtering.kept(scan_batches(piece)) for piece in pieces]
    assert [list(it) for it in kept if it is not None] == [[True], [False, False, True], [True, False]]


@pytest.mark.parametrize("body", [b"", b"\x02\x00", b"\x80" * 9, b"\x10\x00\x00\x00\x02\x00"])
def test_marker_that_can_not_be_read_ends_nothing(body: bytes) -> None:
    fields: dict[str, Any] = {"base_offset": 2, "attributes": 0x30, "producer_id": 7}
    broken = MadeBatch(body=body, record_count=1 if body else 0, **fields).encode()
    (header,) = scan_batches(broken)
    assert header.control_type is None
    assert offsets(data(0, 7) + broken + data(3, 7), aborted(7, 0, 9)) == []
