from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.waiting import wait_until
from tiergate_server.adapters.s3_part_body import PartBody, PartDropped

WINDOW = 8


def read_all(body: PartBody, size: int = -1) -> bytes:
    return b"".join(iter(lambda: bytes(body.read(size)), b""))


@contextmanager
def blocked(body: PartBody, data: bytes) -> Iterator[Future[None]]:
    """An append that waits for the window, in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        appending = thread.submit(body.append, data)
        wait_until(lambda: bool(body._changed._waiters))  # type: ignore[attr-defined]
        try:
            yield appending
        finally:
            body.drop()


@settings(max_examples=50)
@given(pieces=st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=10), size=st.integers(1, 30))
def test_reader_gets_what_was_appended_whatever_the_pieces(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    body = PartBody(len(whole), window_bytes=WINDOW)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(read_all, body, size)
        for piece in pieces:
            body.append(piece)
        assert reading.result(10) == whole
    body.rewind_when_whole()
    assert read_all(body) == whole
    assert body.tell() == len(whole)


def test_read_gives_at_most_what_was_asked_for() -> None:
    body = PartBody(10, window_bytes=WINDOW)
    body.append(b"abcdef")
    assert [bytes(body.read(4)), bytes(body.read(4))] == [b"abcd", b"ef"]


def test_append_waits_while_the_window_is_full() -> None:
    body = PartBody(20, window_bytes=WINDOW)
    body.append(b"x" * WINDOW)
    with blocked(body, b"y") as appending:
        assert not appending.done()
        body.read(1)
        appending.result(10)
        assert body.missing_bytes == 20 - WINDOW - 1


def test_buffer_that_its_owner_uses_again_is_copied() -> None:
    owned = bytearray(b"first")
    body = PartBody(5, window_bytes=WINDOW)
    body.append(memoryview(owned))
    owned[:] = b"other"
    assert read_all(body) == b"first"


def test_message_that_is_mostly_other_things_is_not_kept_for_its_data() -> None:
    kept = []
    for padding in (b"", b"p" * 4 * WINDOW):
        message = b"data" * 2 + padding
        body = PartBody(WINDOW, window_bytes=WINDOW)
        body.append(memoryview(message)[:WINDOW])
        kept.append(any(memoryview(piece).obj is message for piece in body._pieces))
        assert read_all(body) == b"data" * 2
    assert kept == [True, False]


def test_dropped_part_lets_go_of_both_sides_and_of_its_bytes() -> None:
    body = PartBody(20, window_bytes=WINDOW)
    body.append(b"x" * WINDOW)
    with blocked(body, b"y") as appending:
        body.drop()
        appending.result(10)
    with pytest.raises(PartDropped):
        body.read()
    with pytest.raises(PartDropped):
        body.rewind_when_whole()
    assert body._pieces == []


def test_reader_that_waits_is_woken_up_when_the_part_is_dropped() -> None:
    body = PartBody(20, window_bytes=WINDOW)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(body.read)
        wait_until(lambda: bool(body._changed._waiters))  # type: ignore[attr-defined]
        body.drop()
        with pytest.raises(PartDropped):
            reading.result(10)


def test_second_attempt_waits_for_the_whole_part_which_no_window_holds_up() -> None:
    body = PartBody(3 * WINDOW, window_bytes=WINDOW)
    body.append(b"x" * WINDOW)
    body.read()
    rewound = threading.Event()

    def rewind() -> bytes:
        body.rewind_when_whole()
        rewound.set()
        return read_all(body)

    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(rewind)
        wait_until(lambda: not body._is_streamed)
        body.append(b"y" * WINDOW)
        assert not rewound.is_set()
        body.append(b"z" * WINDOW)
        assert reading.result(10) == b"x" * WINDOW + b"y" * WINDOW + b"z" * WINDOW


def test_body_is_read_from_its_beginning_only() -> None:
    body = PartBody(2, window_bytes=WINDOW)
    body.append(b"ab")
    assert body.seek(0) == 0
    for offset, whence in ((1, io.SEEK_SET), (0, io.SEEK_END)):
        with pytest.raises(ValueError, match="seek to 0"):
            body.seek(offset, whence)
