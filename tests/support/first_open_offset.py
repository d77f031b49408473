"""Where the earliest transaction of a producer snapshot begins; what is open in a history is not found out here."""

from __future__ import annotations

from tiergate_client.records import ProducerSnapshot


def first_open_offset(snapshot: bytes) -> int | None:
    """Of a broker's file. A reader of committed data ends before it."""
    producers = ProducerSnapshot.parse(snapshot).producers
    return min((one.transaction_first_offset for one in producers if one.transaction_first_offset >= 0), default=None)
