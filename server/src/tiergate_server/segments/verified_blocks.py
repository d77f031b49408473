"""Ranged reads of a log, checked block by block before a byte leaves. Where the bytes come from is the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

# Twice as fast as the package of that name, which the client has to be content with.
from awscrt.checksums import crc32c  # type: ignore[import-untyped]

from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile, SegmentManifest
from tiergate_client.stored_reads import stored_data_corrupt
from tiergate_server.segments.object_store import ObjectReader


class VerifiedRange:
    """The bytes [offset, end) of a log, from a reader of the widened range; None when the range is empty.

    Read once, piece by piece or by iteration. Raises StoredDataCorrupt instead of giving a byte of a block that does
    not match. The caller closes it, and with it the reader.
    """

    def __init__(self, reader: ObjectReader | None, manifest: SegmentManifest, *, offset: int, end: int) -> None:
        self._reader = reader
        self._manifest = manifest
        self._position = offset
        self._end = end

    @property
    def position(self) -> int:
        """Where in the log the next piece begins."""
        return self._position

    @property
    def next_bytes(self) -> int:
        """The size of the next piece, which is of one block at most; 0 at the end."""
        end_of_block = (self._position // BLOCK_BYTES + 1) * BLOCK_BYTES
        return min(self._end, end_of_block) - self._position

    @property
    def left_bytes(self) -> int:
        return self._end - self._position

    def read_into(self, place: memoryview) -> int:
        """Puts the next piece into a place of its size and returns its checksum. After an error the place is void."""
        if self._reader is None:
            return 0
        number = self._position // BLOCK_BYTES
        start = number * BLOCK_BYTES
        block_bytes = min(BLOCK_BYTES, self._manifest.log.size_bytes - start)
        is_whole = len(place) == block_bytes
        block = place if is_whole else memoryview(bytearray(block_bytes))
        read_bytes = self._reader.read_into(block)
        checksum: int = crc32c(block)
        if read_bytes != block_bytes or checksum != self._manifest.log_block_crc32c[number]:
            raise stored_data_corrupt(self._manifest, SegmentFile.LOG, start, "does not match its checksum")
        if not is_whole:
            begin = self._position - start
            place[:] = block[begin : begin + len(place)]
            checksum = crc32c(place)
        self._position += len(place)
        return checksum

    def __iter__(self) -> Iterator[memoryview]:
        while self.left_bytes:
            place = memoryview(bytearray(self.next_bytes))
            self.read_into(place)
            yield place

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
