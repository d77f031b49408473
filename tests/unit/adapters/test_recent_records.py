from __future__ import annotations

from tiergate_server.adapters.polled_stream import Span
from tiergate_server.adapters.recent_records import RecentRecords
from tiergate_server.metadata.event_log import LogRecord

RECORDS = [LogRecord(number % 2, number // 2, b"x" * 600) for number in range(10)]  # five of each partition


def test_recent_records_are_read_from_inside_a_span() -> None:
    recent = RecentRecords()
    recent.append(RECORDS)
    assert recent.read(Span(1, 2, 5), max_records=2) == [RECORDS[5], RECORDS[7]]
    assert recent.read(Span(1, 4, 9), max_records=9) == [RECORDS[9]]


def test_nothing_is_read_when_the_first_of_the_span_made_room() -> None:
    recent = RecentRecords(max_bytes=4000)  # four records and what is around them
    recent.append(RECORDS)
    assert recent.read(Span(0, 2, 5), max_records=9) == []
    assert recent.read(Span(0, 3, 5), max_records=9) == [RECORDS[6], RECORDS[8]]


def test_a_record_larger_than_the_room_is_not_kept() -> None:
    recent = RecentRecords(max_bytes=500)
    recent.append(RECORDS[:1])
    assert recent.read(Span(0, 0, 1), max_records=1) == []
