"""Reads of a log over a file that breaks off wherever hypothesis says."""

from __future__ import annotations

import time
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.segments import make_data, make_metadata
from tiergate_client._direct_answer import StoreOutOfReach, UrlRefused
from tiergate_client._direct_file import DirectFile
from tiergate_client._direct_index import read_index
from tiergate_client._direct_log import DirectLog
from tiergate_client._direct_reader import DirectReader
from tiergate_client._direct_stream import DirectStream, RestOfLog
from tiergate_client.errors import SegmentNotFound, StoredDataCorrupt, TiergateError
from tiergate_client.interfaces import SegmentStream
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile

SIZE = 4 * BLOCK_BYTES + 77
DATA = make_data(log_bytes=SIZE)
MANIFEST = DATA.manifest(make_metadata())
LOG = cast("bytes", DATA.log)


class BreakingFile:
    """A stored file whose n-th answer breaks off after the n-th number of bytes; after those none does."""

    manifest = MANIFEST

    def __init__(self, content: bytes, breaks: list[int]) -> None:
        self.content = content
        self.breaks = list(breaks)
        self.opened: list[tuple[int, int]] = []
        self.trouble: TiergateError | None = None

    def open(self, begin: int, end: int) -> BreakingBody:
        self.opened.append((begin, end))
        if self.trouble is not None:
            raise self.trouble
        left = self.breaks.pop(0) if self.breaks else end - begin
        return BreakingBody(self.content[begin : min(begin + left, end)])


class BreakingBody:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def readinto(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def close(self) -> None:
        self._content = b""


def opened(file: DirectFile, begin: int, end: int) -> DirectReader:
    return DirectReader(file, begin=begin, end=end, patience_s=0.5, deadline_s=time.monotonic() + 60)


def log_of(file: BreakingFile, *, offset: int, length: int | None) -> DirectLog:
    return DirectLog(cast("DirectFile", file), opened, offset=offset, length=length)


@settings(max_examples=60, deadline=None)
@given(
    offset=st.integers(0, SIZE),
    length=st.none() | st.integers(1, SIZE + 5),
    breaks=st.lists(st.integers(1, BLOCK_BYTES + 10), max_size=6),
    rooms=st.lists(st.integers(1, 10) | st.integers(BLOCK_BYTES - 1, 4 * BLOCK_BYTES), max_size=5),
)
def test_exactly_the_range_is_given_wherever_connections_break(
    offset: int, length: int | None, breaks: list[int], rooms: list[int]
) -> None:
    """Some of it into memory of the reader's, if that is asked for, and the rest in pieces."""
    file = BreakingFile(LOG, breaks)
    log = log_of(file, offset=offset, length=length)
    end = SIZE if length is None else min(offset + length, SIZE)
    received = bytearray()
    for room in rooms:
        buffer = memoryview(bytearray(room))
        received += buffer[: log.readinto(buffer)]
        assert log.position == offset + len(received)
    received += b"".join(iter(log.next_piece, None))
    assert received == LOG[offset:end]
    assert log.position == end
    assert log.readinto(memoryview(bytearray(10))) == 0
    for begin, end_of_run in file.opened:
        assert begin >= offset // BLOCK_BYTES * BLOCK_BYTES
        assert end_of_run == min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, SIZE)


@settings(max_examples=40, deadline=None)
@given(
    damaged_block=st.integers(0, SIZE // BLOCK_BYTES),
    within=st.integers(0, 76),
    bit=st.integers(0, 7),
    offset=st.integers(0, SIZE - 1) | st.just(0),
    room=st.sampled_from([0, BLOCK_BYTES, 3 * BLOCK_BYTES, 4 * BLOCK_BYTES]),
)
def test_no_byte_of_a_block_with_a_flipped_bit_is_given(
    damaged_block: int, within: int, bit: int, offset: int, room: int
) -> None:
    damaged = damaged_block * BLOCK_BYTES
    spoiled = bytearray(LOG)
    spoiled[damaged + within] ^= 1 << bit
    file = BreakingFile(bytes(spoiled), [])
    received = bytearray()

    def read_all() -> None:
        log = log_of(file, offset=offset, length=None)
        buffer = memoryview(bytearray(room))
        while room and (count := log.readinto(buffer)):
            received.extend(buffer[:count])
        for piece in iter(log.next_piece, None):
            received.extend(piece)

    if damaged < offset // BLOCK_BYTES * BLOCK_BYTES:
        read_all()
        assert received == LOG[offset:]
    else:
        with pytest.raises(StoredDataCorrupt):
            read_all()
        assert received == LOG[offset:damaged]


@pytest.mark.parametrize("damaged_block", [2, 3, 4])
def test_blocks_before_a_damaged_one_are_given_and_then_the_damage_is_told_however_one_asks(damaged_block: int) -> None:
    damaged = damaged_block * BLOCK_BYTES
    spoiled = bytearray(LOG)
    spoiled[damaged] ^= 1
    log = log_of(BreakingFile(bytes(spoiled), []), offset=0, length=None)
    taken: list[TiergateError] = []
    stream = DirectStream(RestOfLog(log, pytest.fail, taken.append))
    assert stream.readinto(memoryview(bytearray(BLOCK_BYTES))) == BLOCK_BYTES  # the first one was read at once
    buffer = memoryview(bytearray(SIZE))
    assert log.readinto(buffer) == damaged - BLOCK_BYTES
    assert buffer[: damaged - BLOCK_BYTES] == LOG[BLOCK_BYTES:damaged]
    assert log.position == damaged
    for ask in (log.next_piece, lambda: log.readinto(memoryview(bytearray(10))), lambda: log.readinto(buffer)):
        with pytest.raises(StoredDataCorrupt, match=f"at {damaged}:"):
            ask()
    assert log.position == damaged
    assert not taken


def test_index_is_read_whole_and_verified_wherever_connections_break() -> None:
    index = cast("bytes", DATA.time_index)
    file = BreakingFile(index, [1, 50])
    assert read_index(cast("DirectFile", file), SegmentFile.TIME_INDEX, opened) == index
    assert [begin for begin, _ in file.opened] == [0, 1, 51]
    with pytest.raises(StoredDataCorrupt):
        read_index(cast("DirectFile", BreakingFile(index[::-1], [])), SegmentFile.TIME_INDEX, opened)


@pytest.mark.parametrize(
    ("trouble", "is_tried_again"),
    [(StoreOutOfReach("away"), True), (UrlRefused("not this one"), False), (SegmentNotFound("deleted"), False)],
    ids=["may pass", "will not pass", "gone"],
)
def test_what_may_pass_is_tried_again_and_what_will_not_is_told_at_once(
    trouble: TiergateError, is_tried_again: bool
) -> None:
    file = BreakingFile(LOG, [BLOCK_BYTES])
    log = log_of(file, offset=0, length=None)
    file.trouble = trouble
    with pytest.raises(type(trouble)):
        list(iter(log.next_piece, None))
    again = [begin for begin, _ in file.opened[1:]]
    assert set(again) == {BLOCK_BYTES}
    assert (len(again) > 1) is is_tried_again


@settings(max_examples=60, deadline=None)
@given(
    offset=st.integers(0, SIZE),
    received_bytes=st.integers(BLOCK_BYTES, SIZE),
    steps=st.lists(st.none() | st.integers(1, 10) | st.sampled_from([BLOCK_BYTES, 2 * BLOCK_BYTES]), max_size=8),
)
def test_log_goes_on_through_the_service_however_it_is_read(
    offset: int, received_bytes: int, steps: list[int | None]
) -> None:
    """Pieces and reads into memory take turns; one iterator is held all the time, others are dropped."""
    file = BreakingFile(LOG, [received_bytes])
    log = log_of(file, offset=offset, length=None)
    file.trouble = UrlRefused("no longer")
    detours: list[int] = []

    def through_the_service(*, offset: int, length: int) -> SegmentStream:
        detours.append(offset)
        return SegmentStream(iter([LOG[offset : offset + 7], LOG[offset + 7 : offset + length]]), lambda: None)

    stream = DirectStream(RestOfLog(log, through_the_service, lambda _: None))
    held = iter(stream)
    received = bytearray()
    for step in steps:
        if step is None:
            received += next(held, b"")
            received += next(iter(stream), b"")
        else:
            buffer = memoryview(bytearray(step))
            received += buffer[: stream.readinto(buffer)]
    received += stream.read()
    assert received == LOG[offset:]
    assert len(detours) <= 1
