"""Polling a stream of an event log until it has brought what a test waits for."""

from __future__ import annotations

import time

from tiergate_server.metadata.event_log import EventStream, LogRecord, PositionLost, StreamClosed

_WAIT_S = 30.0


def take(stream: EventStream, count: int) -> list[LogRecord]:
    records: list[LogRecord] = []
    deadline = time.monotonic() + _WAIT_S
    while len(records) < count and time.monotonic() < deadline:
        records += stream.poll(timeout_s=0.5)
    assert len(records) == count
    return records


def poll_until_it_raises(stream: EventStream) -> Exception:
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        try:
            stream.poll(timeout_s=0.2)
        except (StreamClosed, PositionLost) as raised:
            return raised
    raise AssertionError("poll raised nothing")
