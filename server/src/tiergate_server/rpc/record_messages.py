"""Records and raw batches as messages of ReadRecords, each small enough to be received by every client.

Messages are framed by hand: what carries records is not built as protobuf messages, record by record, under the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tiergate.v1 import records_pb2 as pb
from tiergate_client.errors import LimitExceeded
from tiergate_client.records.batch_headers import scan_batches
from tiergate_client.records.record_framing import FramedRecords, frame_records
from tiergate_client.varints import encode_varint

# As much as a chunk of bytes: enough for the transport, and little to be sent again after a break.
_MESSAGE_BYTES: Final = 1024 * 1024
# What a message carries beside its records or its data is shorter.
_OVERHEAD_BYTES: Final = 64
_NEXT_OFFSET_TAG, _IS_CONTINUED, _DATA_TAG = b"\x08", b"\x38\x01", b"\x7a"


@dataclass(slots=True)
class Allowance:
    """How much of a read is still wanted; None is any amount."""

    records: int | None
    size_bytes: int | None

    @property
    def is_used_up(self) -> bool:
        return (self.records is not None and self.records <= 0) or (
            self.size_bytes is not None and self.size_bytes <= 0
        )

    def use(self, *, records: int, size_bytes: int) -> None:
        if self.records is not None:
            self.records -= records
        if self.size_bytes is not None:
            self.size_bytes -= size_bytes


def record_messages(batches: Iterator[Any], *, message_bytes: int, allowance: Allowance) -> Iterator[bytes]:
    """Until the allowance is used up. Raises LimitExceeded at a record that is larger than a message."""
    for batch in batches:
        framed = frame_records(batch)
        wanted = _wanted(framed, allowance)
        yield from _messages(framed, wanted, most_bytes=message_bytes - _OVERHEAD_BYTES)
        if wanted:
            allowance.use(records=wanted, size_bytes=int(framed.payload_ends[wanted - 1]))
        if allowance.is_used_up:
            return


def _wanted(framed: FramedRecords, allowance: Allowance) -> int:
    count = len(framed)
    if allowance.records is not None:
        count = min(count, allowance.records)
    if allowance.size_bytes is not None:
        count = min(count, int(np.searchsorted(framed.payload_ends, allowance.size_bytes)) + 1)
    return count


def _messages(framed: FramedRecords, wanted: int, *, most_bytes: int) -> Iterator[bytes]:
    content = framed.content.data
    first, begin = 0, 0
    while first < wanted:
        stop = int(np.searchsorted(framed.ends[:wanted], begin + min(_MESSAGE_BYTES, most_bytes), side="right"))
        stop = max(stop, first + 1)
        end = int(framed.ends[stop - 1])
        if end - begin > most_bytes:
            raise _too_large(int(framed.offsets[first]), end - begin, most_bytes + _OVERHEAD_BYTES)
        next_offset = encode_varint(int(framed.offsets[stop - 1]) + 1)
        yield b"".join((_NEXT_OFFSET_TAG, next_offset, content[begin:end]))
        first, begin = stop, end


def _too_large(offset: int, size_bytes: int, limit_bytes: int) -> LimitExceeded:
    refusal = LimitExceeded.of(
        "message_bytes",
        limit_bytes,
        f"the record at offset {offset} takes {size_bytes} bytes and a message {limit_bytes} at most: read it as "
        f"raw batches, or go on behind it",
    )
    refusal.details["offset"] = str(offset)
    return refusal


def raw_messages(
    runs: Iterator[bytes], *, chunk_bytes: int, start_offset: int, stop_offset: int, allowance: Allowance
) -> Iterator[bytes]:
    """Whole batches as long as they fit into a chunk; a larger one in pieces. The last may reach over the stop."""
    next_offset = start_offset
    for run in runs:
        scanned = scan_batches(run)
        ends = np.append(scanned.starts[1:], scanned.end_position)
        behinds = np.minimum(scanned.last_offsets + 1, stop_offset)
        first, begin = 0, 0
        while first < len(scanned):
            stop = max(int(np.searchsorted(ends, begin + chunk_bytes, side="right")), first + 1)
            stop = first + _wanted_batches(ends[first:stop] - begin, behinds[first:stop] - next_offset, allowance)
            end, behind = int(ends[stop - 1]), int(behinds[stop - 1])
            yield from _pieces(memoryview(run)[begin:end], next_offset, behind, chunk_bytes)
            allowance.use(records=behind - next_offset, size_bytes=end - begin)
            if allowance.is_used_up:
                return
            first, begin, next_offset = stop, end, behind


def _wanted_batches(sizes: Any, offsets: Any, allowance: Allowance) -> int:
    count = len(sizes)
    if allowance.records is not None:
        count = min(count, int(np.searchsorted(offsets, allowance.records)) + 1)
    if allowance.size_bytes is not None:
        count = min(count, int(np.searchsorted(sizes, allowance.size_bytes)) + 1)
    return count


def _pieces(batches: memoryview, next_offset: int, behind: int, chunk_bytes: int) -> Iterator[bytes]:
    for at in range(0, len(batches), chunk_bytes):
        data = batches[at : at + chunk_bytes]
        is_last = at + chunk_bytes >= len(batches)
        yield raw_message(data, next_offset=behind if is_last else next_offset, is_continued=not is_last)


def raw_message(data: memoryview, *, next_offset: int, is_continued: bool) -> bytes:
    head = _NEXT_OFFSET_TAG + encode_varint(next_offset) if next_offset else b""
    return b"".join((head, _IS_CONTINUED if is_continued else b"", _DATA_TAG, encode_varint(len(data)), data))


def last_message(stop_offset: int) -> bytes:
    """Says that everything has come."""
    return pb.ReadRecordsResponse(next_offset=stop_offset).SerializeToString()
