"""What the headers of a log's batches say, and whether their checksums hold; records are not decoded here."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crc32c import crc32c

from tiergate_client.batch_layout import CHECKSUMMED_FROM, HEADER_BYTES, LENGTH_ENDS_AT, MAGIC, MAGIC_AT

_SCANNED = struct.Struct(">qi5xI2xi8xq")  # the header's fields that are read here, see batch_layout.py
# Not mapped: the pages of a mapped log of a gigabyte would count as memory of this process.
_BUFFER_BYTES = 64 * 1024
_PIECE_BYTES = 1024 * 1024
NO_TIMESTAMP_MS = -1
RESTORE = "restore the file from another replica"


class CorruptLog(Exception):
    """A log is not a run of whole, undamaged batches; the message names file and position and says what to do."""


@dataclass(frozen=True, slots=True)
class LogScan:
    """What a whole log holds. An empty log has no offsets and no timestamp."""

    first_offset: int | None
    last_offset: int | None
    max_timestamp_ms: int
    batch_count: int


def scan_log(path: Path) -> LogScan:
    first = last = None
    max_timestamp = NO_TIMESTAMP_MS
    count = 0
    with path.open("rb", buffering=_BUFFER_BYTES) as log:
        for position, base_offset, last_offset, timestamp in _batches(log, path):
            if last is not None and base_offset <= last:
                raise CorruptLog(
                    f"{path}: the batch at position {position} begins with offset {base_offset}, "
                    f"but the one before it ends with {last}; {RESTORE}"
                )
            first = base_offset if first is None else first
            last = last_offset
            max_timestamp = max(max_timestamp, timestamp)
            count += 1
    return LogScan(first, last, max_timestamp, count)


def _batches(log: BinaryIO, path: Path) -> Iterator[tuple[int, int, int, int]]:
    """Position, base offset, last offset and largest timestamp. A log has up to millions: bare tuples, few steps."""
    position, left = 0, path.stat().st_size
    while left:
        header = log.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            raise CorruptLog(
                f"{path}: the batch at position {position} is cut: {left} bytes are left of its header; {RESTORE}"
            )
        magic = header[MAGIC_AT]
        if magic != MAGIC:  # checked first: what follows is laid out differently in other versions
            raise CorruptLog(_about_magic(path, position, magic))
        base_offset, length, checksum, last_offset_delta, max_timestamp = _SCANNED.unpack_from(header)
        size = length + LENGTH_ENDS_AT
        if size < HEADER_BYTES or last_offset_delta < 0 or base_offset < 0:
            raise CorruptLog(
                f"{path}: the batch at position {position} has a corrupt header (base offset {base_offset}, "
                f"length {length}, last offset delta {last_offset_delta}); {RESTORE}"
            )
        if size > left:
            raise CorruptLog(
                f"{path}: the batch at position {position} is cut: {left} of its {size} bytes are there; {RESTORE}"
            )
        computed = _checksum(log, header, size - HEADER_BYTES)
        if computed != checksum:
            raise CorruptLog(
                f"{path}: the batch at position {position} is damaged: its checksum is {computed:08x}, "
                f"but its header says {checksum:08x}; {RESTORE}"
            )
        yield position, base_offset, base_offset + last_offset_delta, max_timestamp
        position += size
        left -= size


def _checksum(log: BinaryIO, header: bytes, body_bytes: int) -> int:
    """Of a batch whose header was read. A batch may be as large as a log, hence piece by piece."""
    checksum = crc32c(header[CHECKSUMMED_FROM:])
    while body_bytes and (piece := log.read(min(body_bytes, _PIECE_BYTES))):
        checksum = crc32c(piece, checksum)
        body_bytes -= len(piece)
    return checksum


def _about_magic(path: Path, position: int, magic: int) -> str:
    if magic < MAGIC:
        return (
            f"{path}: the batch at position {position} has the old format {magic}; only format {MAGIC}, which Kafka "
            "writes since 0.11, can be tiered: wait until retention has removed the segment"
        )
    return f"{path}: the batch at position {position} has a corrupt header (format {magic}); {RESTORE}"
