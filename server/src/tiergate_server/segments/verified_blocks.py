"""Ranged reads of a log, checked block by block before a byte leaves. Where the bytes come from is the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from crc32c import crc32c

from tiergate_client.errors import StoredDataCorrupt
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile, SegmentManifest
from tiergate_server.segments.object_store import ObjectReader


@dataclass(frozen=True, slots=True)
class VerifiedPiece:
    """Bytes of at most one block, and their checksum."""

    data: bytes | memoryview
    crc32c: int


def widened(offset: int, end: int, *, size: int) -> tuple[int, int]:
    """The smallest run of whole blocks of a log of `size` bytes that holds [offset, end)."""
    return offset // BLOCK_BYTES * BLOCK_BYTES, min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, size)


class VerifiedRange:
    """The bytes [offset, end) of a log, from a reader of the widened range; None when the range is empty.

    Iterated once. Raises StoredDataCorrupt instead of giving a byte of a block that does not match. The caller closes
    it, and with it the reader.
    """

    def __init__(self, reader: ObjectReader | None, manifest: SegmentManifest, *, offset: int, end: int) -> None:
        self._reader = reader
        self._manifest = manifest
        self._offset = offset
        self._end = end

    def __iter__(self) -> Iterator[VerifiedPiece]:
        if self._reader is None:
            return
        size = self._manifest.log.size_bytes
        begin, end_of_blocks = widened(self._offset, self._end, size=size)
        for start in range(begin, end_of_blocks, BLOCK_BYTES):
            expected_bytes = min(BLOCK_BYTES, size - start)
            block = self._reader.read(expected_bytes)
            checksum = crc32c(block)
            if len(block) != expected_bytes or checksum != self._manifest.log_block_crc32c[start // BLOCK_BYTES]:
                raise stored_data_corrupt(self._manifest, SegmentFile.LOG, start, "does not match its checksum")
            if self._offset <= start and start + expected_bytes <= self._end:
                yield VerifiedPiece(block, checksum)
            else:
                part = memoryview(block)[max(self._offset - start, 0) : self._end - start]
                yield VerifiedPiece(part, crc32c(part))

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stored_data_corrupt(manifest: SegmentManifest, file: SegmentFile, position: int, fact: str) -> StoredDataCorrupt:
    segment_id = manifest.metadata.segment_id
    return StoredDataCorrupt(
        f"the stored {file.value} of segment {segment_id} {fact} at {position}: restore it, or delete the segment",
        details={"segment": str(segment_id), "file": file.value, "position": str(position)},
    )
