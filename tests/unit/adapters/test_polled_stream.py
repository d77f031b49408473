from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tiergate_server.adapters.polled_stream import LogProgress, PolledStream, Span
from tiergate_server.metadata.event_log import LogRecord


class Reader:
    """Makes up the records it is asked for; `meanwhile` happens while it reads."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def read(self, spans: Iterable[Span], *, max_records: int) -> list[LogRecord]:
        self.meanwhile()
        records = [LogRecord(span.partition, at, b"") for span in spans for at in range(span.first, span.end)]
        return records[:max_records]

    def close(self) -> None:
        pass


@pytest.fixture
def reader() -> Reader:
    return Reader()


def places(records: list[LogRecord]) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in records]


def test_no_partition_starves_behind_a_long_backlog(reader: Reader) -> None:
    stream = PolledStream(LogProgress([50, 1, 1]), reader, starts={0: 0, 1: 0, 2: 0})
    early = [record for _ in range(2) for record in stream.poll(timeout_s=0, max_records=5)]
    assert {record.partition for record in early} == {0, 1, 2}


def test_records_of_a_partition_removed_while_they_were_read_are_left_out(reader: Reader) -> None:
    stream = PolledStream(LogProgress([2, 1]), reader, starts={0: 0, 1: 0})
    reader.meanwhile = lambda: stream.remove([0])
    assert places(stream.poll(timeout_s=0)) == [(1, 0)]


def test_a_partition_moved_while_it_was_read_continues_at_its_new_place(reader: Reader) -> None:
    stream = PolledStream(LogProgress([3]), reader, starts={0: 0})

    def move() -> None:
        reader.meanwhile = lambda: None
        stream.remove([0])
        stream.add({0: 2})

    reader.meanwhile = move
    assert places(stream.poll(timeout_s=0)) == [(0, 2)]
    assert stream.poll(timeout_s=0) == []


@pytest.mark.parametrize("starts", [{1: 0}, {-1: 0}, {0: -1}])
def test_an_impossible_start_is_refused_and_changes_nothing(reader: Reader, starts: dict[int, int]) -> None:
    stream = PolledStream(LogProgress([1]), reader, starts={})
    with pytest.raises(ValueError, match="partition"):
        stream.add(starts)
    assert stream.partitions() == frozenset()


def test_poll_for_no_records_is_refused(reader: Reader) -> None:
    stream = PolledStream(LogProgress([1]), reader, starts={0: 0})
    with pytest.raises(ValueError, match="one record at least"):
        stream.poll(timeout_s=0, max_records=0)
