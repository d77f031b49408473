"""Pieces of an index, checked before a byte leaves. An index has one checksum, so all of it is read for every piece.

Memory: the piece and one read, however large the index is. Where the bytes come from is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass

from crc32c import crc32c

from tiergate_client.segment_files import FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.stored_reads import stored_data_corrupt
from tiergate_server.segments.object_store import ObjectReader

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IndexPiece:
    """Bytes of an index, with the size and checksum of the whole."""

    data: bytes
    whole: FileChecksum


def verified_slice(
    reader: ObjectReader, manifest: SegmentManifest, file: SegmentFile, *, offset: int, end: int
) -> bytes:
    """The bytes [offset, end) of an index, from a reader of the whole. Raises StoredDataCorrupt."""
    whole = manifest.files[file]
    kept: list[bytes] = []
    checksum = position = 0
    while data := reader.read(_READ_BYTES):
        checksum = crc32c(data, checksum)
        if position < end and offset < position + len(data):
            kept.append(data[max(offset - position, 0) : end - position])
        position += len(data)
    if position != whole.size_bytes or checksum != whole.crc32c:
        raise stored_data_corrupt(manifest, file, 0, "does not match its checksum")
    return b"".join(kept)
