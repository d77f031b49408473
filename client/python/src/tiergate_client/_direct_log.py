"""A log, or a part of it, straight from the store: whole blocks are read, verified, and cut to what was asked for."""

from __future__ import annotations

from collections.abc import Callable

from tiergate_client._direct_buffers import BlockBuffers
from tiergate_client._direct_file import DirectFile
from tiergate_client._direct_reader import DirectReader
from tiergate_client._fast_crc32c import fast_crc32c
from tiergate_client.errors import StoredDataCorrupt
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
        self._damaged_at: int | None = None
        self._piece = self._verified_piece() if offset < self.end else None
        """Of a block that was read and not handed out to its end."""

    def next_piece(self) -> memoryview | None:
        if self.position >= self.end:
            return None
        piece, self._piece = self._piece or self._verified_piece(), None
        self.position += len(piece)
        return piece

    def readinto(self, buffer: memoryview) -> int:
        """As SegmentStream has it. Blocks that are wanted and fit as a whole are received where they are wanted."""
        buffer = memoryview(buffer).cast("B")
        start, limit = self.position, min(self.position + len(buffer), self.end)
        stop = limit if limit == self._size else limit // BLOCK_BYTES * BLOCK_BYTES
        if self._piece is None and start % BLOCK_BYTES == 0 and start < stop:
            count = self._fill_verified(buffer[: stop - start], start)
            self.position += count
            return count
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

    def _fill_verified(self, blocks: memoryview, start: int) -> int:
        """How many bytes are sound: all, or those before a block that does not match, which the next call then tells.

        A failure ends it: blocks of which a part was received are not asked for again.
        """
        if self._damaged_at is not None:
            raise self._damage(self._damaged_at)
        try:
            self._reader.fill(blocks)
        except BaseException:
            self.close()
            raise
        for at in range(0, len(blocks), BLOCK_BYTES):
            position, block = start + at, blocks[at : at + BLOCK_BYTES]
            if self._checksum(block) != self._manifest.log_block_crc32c[position // BLOCK_BYTES]:
                self.close()
                self._damaged_at = position
                if at:
                    return at
                raise self._damage(position)
        return len(blocks)

    def _damage(self, position: int) -> StoredDataCorrupt:
        return stored_data_corrupt(self._manifest, SegmentFile.LOG, position, "does not match its checksum")
