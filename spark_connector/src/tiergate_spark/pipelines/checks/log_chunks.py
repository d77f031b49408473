"""The batches of a part of a log as they are, a megabyte or more at a time, up to bytes that are no batch.

Readers of records refuse more than that (`tiergate_client.records.batch_chunks`); here what is wrong is to be told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tiergate_client.batch_layout import LENGTH_AT, LENGTH_ENDS_AT
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_chunks import MOST_BATCH_BYTES
from tiergate_client.records.batch_headers import ScannedBatches, scan_batches
from tiergate_client.records.defects import BatchDefect, FoundDefect
from tiergate_client.values import RemoteLogSegmentMetadata

_CHUNK_BYTES: Final = 2 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")


def log_chunks(
    segment: RemoteLogSegmentMetadata, storage: RemoteStorage, *, position: int, stop: int, is_end: bool
) -> Iterator[ScannedBatches]:
    """Every whole batch of [position, stop) once, in order.

    Raises FoundDefect at what is none, also at a batch that is cut where `is_end` says that the log ends there.
    """
    pieces: list[bytes | memoryview] = []
    held, wanted = 0, _CHUNK_BYTES
    with storage.fetch_segment(segment, offset=position, length=stop - position) as stream:
        for piece in stream:
            pieces.append(bytes(piece))  # a stream may fill its buffer again
            held += len(piece)
            if held < wanted:
                continue
            scanned = scan_batches(b"".join(pieces), base_position=position)
            yield from _sound(scanned)
            rest = scanned.buffer[scanned.end_position - position :]
            pieces, held, position = [rest], len(rest), scanned.end_position
            # Whatever a batch says of its length: no more is held than the log has, and than readers take.
            wanted = max(_CHUNK_BYTES, min(_size(rest), stop - position))
            if wanted > MOST_BATCH_BYTES:
                reason = f"it claims {_size(rest)} bytes, and at most {MOST_BATCH_BYTES} are read"
                raise FoundDefect(BatchDefect(position, reason))
    yield from _sound(scan_batches(b"".join(pieces), base_position=position, is_whole=is_end))


def _sound(scanned: ScannedBatches) -> Iterator[ScannedBatches]:
    if len(scanned):
        yield scanned
    if scanned.defect is not None:
        raise FoundDefect(scanned.defect)


def _size(beginning: memoryview) -> int:
    is_told = len(beginning) >= LENGTH_ENDS_AT
    return int(_LENGTH.unpack_from(beginning, LENGTH_AT)[0]) + LENGTH_ENDS_AT if is_told else 0
