"""What a read of stored files has to be, alike for the service and for a client that reads past it.

Ranges are checked and widened to the blocks that have checksums. Where the bytes come from is not known here.
"""

from __future__ import annotations

from collections.abc import Collection

from tiergate_client.errors import IndexNotFound, InvalidField, OffsetOutOfRange, StoredDataCorrupt
from tiergate_client.integers import require_int64
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest


def require_range(offset: int, length: int | None) -> None:
    """Raises InvalidField for what is no range of any log."""
    require_int64("offset", offset, minimum=0)
    if length is not None:
        require_int64("length", length, minimum=1)


def end_of_range(manifest: SegmentManifest, offset: int, length: int | None) -> int:
    """Where in the log a read of at most `length` bytes from `offset` ends. Raises OffsetOutOfRange."""
    size = manifest.log.size_bytes
    if offset > size:
        raise OffsetOutOfRange(
            f"segment {manifest.metadata.segment_id} has {size} bytes, so there is nothing at {offset}: ask within",
            details={"earliest": "0", "latest": str(size)},
        )
    return size if length is None else min(offset + length, size)


def widened(offset: int, end: int, *, size: int) -> tuple[int, int]:
    """The smallest run of whole blocks of a log of `size` bytes that holds [offset, end)."""
    return offset // BLOCK_BYTES * BLOCK_BYTES, min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, size)


def require_files(files: object) -> None:
    """Raises InvalidField."""
    if not isinstance(files, Collection) or not all(isinstance(it, SegmentFile) for it in files):
        raise InvalidField.of("files", f"{files!r} is no collection of SegmentFile")


def require_index(file: SegmentFile) -> None:
    """Raises InvalidField for the log."""
    if file is SegmentFile.LOG:
        raise InvalidField.of("file", "the log is no index: fetch the segment")


def index_of(manifest: SegmentManifest, file: SegmentFile) -> FileChecksum:
    """What an index has to be. Raises IndexNotFound."""
    whole = manifest.files.get(file)
    if whole is None:
        segment_id = manifest.metadata.segment_id
        raise IndexNotFound(
            f"segment {segment_id} has no {file.value}", details={"segment": str(segment_id), "file": file.value}
        )
    return whole


def stored_data_corrupt(manifest: SegmentManifest, file: SegmentFile, position: int, fact: str) -> StoredDataCorrupt:
    segment_id = manifest.metadata.segment_id
    return StoredDataCorrupt(
        f"the stored {file.value} of segment {segment_id} {fact} at {position}: restore it, or delete the segment",
        details={"segment": str(segment_id), "file": file.value, "position": str(position)},
    )
