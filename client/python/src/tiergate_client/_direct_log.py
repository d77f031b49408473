"""A log, or a part of it, straight from the store: whole blocks are read, verified, and cut to what was asked for."""

from __future__ import annotations

from collections.abc import Callable

from tiergate_client._direct_buffers import BlockBuffers
from tiergate_client._direct_file import DirectFile
from tiergate_client._direct_reader import DirectReader
from tiergate_client._fast_crc32c import fast_crc32c
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.stored_reads import end_of_range, stored_data_corrupt, widened

OpenReader = Callable[[DirectFile, int, int], DirectReader]


class DirectLog:
    """Its first block is read at once, so that what is wrong with the segment is told by the call that asks for it."""

    def __init__(self, file: DirectFile, open_reader: OpenReader, *, offset: int, length: int | None) -> None:
        self._manifest = file.manifest
        self._checksum = fast_crc32c()
        self._size = self._manifest.log.size_bytes
        self.position = offset
        """What comes before was handed out."""
        self.end = end_of_range(self._manifest, offset, length)
        begin, end_of_blocks = widened(offset, self.end, size=self._size)
        self._reader = open_reader(file, begin, end_of_blocks)
        self._buffers = BlockBuffers(min(BLOCK_BYTES, self._size))
        self._piece = self._verified_piece() if offset < self.end else None
        """Of a block that was read and not handed out to its end."""

    def next_piece(self) -> memoryview | None:
        if self.position >= self.end:
            return None
        piece, self._piece = self._piece or self._verified_piece(), None
        self.position += len(piece)
        return piece

    def readinto(self, buffer: memoryview) -> int:
        """As SegmentStream has it. A block that is wanted and fits as a whole is received where it is wanted."""
        buffer = memoryview(buffer).cast("B")
        start, stop = self.position, min(self.position + BLOCK_BYTES, self._size)
        if self._piece is None and start % BLOCK_BYTES == 0 and start < stop <= min(self.end, start + len(buffer)):
            self._fill_verified(buffer[: stop - start], start)
            self.position = stop
            return stop - start
        piece = self._piece or (self._verified_piece() if start < self.end else memoryview(b""))
        count = min(len(piece), len(buffer))
        buffer[:count] = piece[:count]
        self._piece = piece[count:] if count < len(piece) else None
        self.position += count
        return count

    def close(self) -> None:
        self._reader.close()

    def _verified_piece(self) -> memoryview:
        start = self.position // BLOCK_BYTES * BLOCK_BYTES
        block = memoryview(self._buffers.take())[: self._size - start]
        self._fill_verified(block, start)
        return block[max(self.position - start, 0) : self.end - start].toreadonly()

    def _fill_verified(self, block: memoryview, start: int) -> None:
        """Or ends it: a block of which a part was received is not asked for again."""
        try:
            self._reader.fill(block)
        except BaseException:
            self.close()
            raise
        if self._checksum(block) != self._manifest.log_block_crc32c[start // BLOCK_BYTES]:
            self.close()
            raise stored_data_corrupt(self._manifest, SegmentFile.LOG, start, "does not match its checksum")
