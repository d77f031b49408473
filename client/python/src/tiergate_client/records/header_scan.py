"""Scans the headers of the batches that hold a range's offsets; what is looked for is known outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_chunks import DEFAULT_CHUNK_BYTES, batch_chunks
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.defects import WRONG_CHECKSUM, FoundDefect
from tiergate_client.records.read_split import SegmentRange


def scan_headers(
    wanted: SegmentRange, storage: RemoteStorage, *, chunk_bytes: int = DEFAULT_CHUNK_BYTES, check_crc: bool = True
) -> Iterator[ScannedBatches]:
    """The batches that hold offsets of the range, some at a time, one behind the other: others share its bytes only.

    Their checksums are checked, since a damaged header would be believed: whose transaction a marker ends, and from
    when the records are. What is given is overwritten when the next one is asked for. Raises CorruptBatch behind the
    batches before that one.
    """
    with named_defects(wanted):
        for scanned in batch_chunks(wanted, storage, chunk_bytes=chunk_bytes):
            asked = scanned.those(scanned.touching(wanted.start_offset, wanted.stop_offset))
            wrong = asked.first_wrong_checksum() if check_crc else None
            sound = asked if wrong is None else asked.until(wrong, WRONG_CHECKSUM)
            if len(sound):
                yield sound
            defect = sound.defect or scanned.defect
            if defect is not None:
                raise FoundDefect(defect)


@contextmanager
def named_defects(wanted: SegmentRange) -> Iterator[None]:
    """Raises CorruptBatch for a FoundDefect."""
    try:
        yield
    except FoundDefect as found:
        raise found.defect.error(segment=str(wanted.segment.segment_id)) from found
