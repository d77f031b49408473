"""Reads a log from end to end, once: every record that is there at one moment, partition by partition.

For looking into a log and for copying it. Following one for ever is the follower's work.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_server.metadata.event_log import EventStream, LogRecord, MetadataEventLog, PositionLost, StreamClosed

_POLL_S = 1.0
_LONGEST_SILENCE_S = 30.0

Spans = Mapping[int, range]
"""Partition -> offsets."""


def spans_of(log: MetadataEventLog) -> dict[int, range]:
    """What each partition holds at this moment, empty ones too. Raises MetadataLogUnavailable."""
    begins = log.begin_offsets(range(log.partition_count))
    ends = log.end_offsets(range(log.partition_count))
    return {partition: range(begins[partition], ends[partition]) for partition in range(log.partition_count)}


def scan(log: MetadataEventLog, spans: Spans) -> Iterator[LogRecord]:
    """The records of these offsets, by partition and offset.

    Raises MetadataLogUnavailable when the log ends, loses them, or stops giving them.
    """
    with contextlib.closing(log.subscribe({})) as stream:
        for partition, span in sorted(spans.items()):
            if span:
                stream.add({partition: span.start})
                yield from _scan_one(stream, partition, span)
                stream.remove([partition])


def _scan_one(stream: EventStream, partition: int, span: range) -> Iterator[LogRecord]:
    heard = time.monotonic()
    trouble = "it gave no record"
    while True:
        try:
            records = stream.poll(timeout_s=_POLL_S)
        except MetadataLogUnavailable as failure:
            records, trouble = [], failure.message
        except (StreamClosed, PositionLost) as end:
            raise MetadataLogUnavailable(f"the log changed while it was read ({end}); start again") from None
        for record in records:
            if record.offset >= span.stop:
                return
            yield record
            if record.offset == span.stop - 1:
                return
        if records:
            heard = time.monotonic()
        elif time.monotonic() - heard > _LONGEST_SILENCE_S:
            raise MetadataLogUnavailable(
                f"partition {partition} of the log cannot be read up to offset {span.stop - 1}: {trouble}"
            )
