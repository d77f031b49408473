"""Decompresses the records of batches, one behind the other, into one buffer that is used again.

What producers write, and what is read beyond it:

    gzip    one member, or several
    snappy  blocks in the framing of xerial's library (Java), or one bare block (librdkafka)
    lz4     frames with or without checksums and content size, blocks of any of the sizes
    zstd    one frame, or several, with or without content size

How much a batch may become is bounded, since a few bytes may stand for gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from tiergate_client.batch_layout import CODEC_MASK
from tiergate_client.records.batch_format import Codec
from tiergate_client.records.batch_table import ATTRIBUTES, END, START
from tiergate_client.records.engines import Frames
from tiergate_client.records.record_columns import Bytes, Longs

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024

_STREAMED: Final = {Codec.GZIP: "gzip", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}
_FIRST_BYTES: Final = 1024 * 1024
# What most frames hold no more than; others are decompressed step by step.
_USUAL_RATIO: Final = 8
_LEAST_ROOM_BYTES: Final = 64 * 1024
_MOST_REFUSED: Final = 3
_MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = len(_XERIAL_MAGIC) + 8
_BLOCK_LENGTH: Final = struct.Struct(">i")
# The densest element of snappy's format copies 64 bytes and takes 3: what claims more is no snappy block.
_SNAPPY_MAX_RATIO: Final = 22
_MAX_PREAMBLE_BYTES: Final = 5


class CanNotDecompress(Exception):
    """The message says why, as the rest of a sentence about the batch."""


class Decompressor:
    """Not to be shared by threads. What `data` shows is overwritten after `clear`."""

    def __init__(
        self, *, max_bytes_per_batch: int = DEFAULT_MAX_DECOMPRESSED_BYTES, frames: Frames | None = None
    ) -> None:
        """`frames` are an engine's, where one is at hand."""
        self._max_bytes = max_bytes_per_batch
        self._frames = frames
        self._buffer = np.empty(0, np.uint8)
        self._used = 0

    @property
    def data(self) -> Bytes:
        return self._buffer[: self._used]

    @property
    def used(self) -> int:
        return self._used

    def clear(self) -> None:
        """What an unusually large batch took is given back."""
        self._used = 0
        if len(self._buffer) > _MOST_KEPT_BYTES:
            self._buffer = np.empty(0, np.uint8)

    def append_all(self, data: Bytes, batches: Longs, *, enough: int) -> tuple[Longs, str | None]:
        """Where in `self.data` the records of each batch are, up to the one with which that has enough bytes.

        And why the batch behind those can not be decompressed, as the rest of a sentence about it.
        """
        spans = np.empty((len(batches), 2), np.int64)
        codecs = (batches[:, ATTRIBUTES] & CODEC_MASK).tolist()
        room = self._usual_room(batches)
        number = refused = 0
        while number < len(batches) and self._used < enough:
            if self._frames is not None and codecs[number] in self._frames.codecs and refused < _MOST_REFUSED:
                self._reserve(max(enough - self._used, 0) + room, most=max(enough, self._used) + room)
                count, self._used = self._frames.decompress(
                    data,
                    batches[number:],
                    self._buffer,
                    used=self._used,
                    enough=enough,
                    most=self._max_bytes,
                    spans=spans[number:],
                )
                number += count
                refused = 0 if count else refused + 1  # in a row: the next ones will be alike
                if number == len(batches) or self._used >= enough:
                    break
            start, end = batches[number, START], batches[number, END]
            try:
                spans[number] = self.append(Codec(codecs[number]), data[start:end].data)
            except CanNotDecompress as error:
                return spans[:number], str(error)
            number += 1
        return spans[:number], None

    def append(self, codec: Codec, body: memoryview) -> tuple[int, int]:
        """Where in `data` the decompressed body begins and ends."""
        start = self._used
        try:
            if codec is Codec.NONE:
                self._append_block(body)
            elif codec is Codec.SNAPPY:
                for block in _snappy_blocks(body):
                    size = self._snappy_size(block, start)
                    self._append_block(memoryview(pa.decompress(block, decompressed_size=size, codec="snappy")))
            else:
                self._append_stream(_STREAMED[codec], body, start)
        except (OSError, ValueError, pa.ArrowException) as error:
            self._used = start
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CanNotDecompress(f"its records can not be decompressed with {codec.name.lower()} ({said})") from error
        except CanNotDecompress:
            self._used = start
            raise
        return start, self._used

    def _append_block(self, block: memoryview) -> None:
        self._reserve(len(block))
        self._buffer[self._used : self._used + len(block)] = np.frombuffer(block, np.uint8)
        self._used += len(block)

    def _append_stream(self, codec: str, body: memoryview, start: int) -> None:
        if not body:
            raise CanNotDecompress(f"its records are not there: it has no bytes for {codec} to decompress")
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), codec) as stream:
            while True:
                if self._used == len(self._buffer):
                    self._reserve(max(_FIRST_BYTES, len(body)), most=start + self._max_bytes + 1)
                allowed = self._max_bytes + 1 - (self._used - start)
                taken = stream.readinto(self._buffer[self._used : self._used + allowed].data)
                if not taken:
                    return
                self._used += taken
                if self._used - start > self._max_bytes:
                    raise self._too_large()

    def _snappy_size(self, block: memoryview, start: int) -> int:
        size = _preamble(block)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise CanNotDecompress(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if self._used - start + size > self._max_bytes:
            raise self._too_large()
        return size

    def _too_large(self) -> CanNotDecompress:
        return CanNotDecompress(
            f"its records take more than {self._max_bytes} bytes when they are decompressed, the limit that was given "
            "(max_decompressed_bytes)"
        )

    def _usual_room(self, batches: Longs) -> int:
        """What the largest of them will not exceed as a rule."""
        largest = int((batches[:, END] - batches[:, START]).max(initial=0))
        return min(_USUAL_RATIO * largest + _LEAST_ROOM_BYTES, self._max_bytes)

    def _reserve(self, more: int, *, most: int | None = None) -> None:
        """Room is doubled, but not beyond the most that can come."""
        needed = self._used + more
        if needed > len(self._buffer):
            size = max(needed, 2 * len(self._buffer), _FIRST_BYTES)
            larger = np.empty(size if most is None else min(size, most), np.uint8)
            larger[: self._used] = self._buffer[: self._used]
            self._buffer = larger


def _snappy_blocks(body: memoryview) -> Iterator[memoryview]:
    if bytes(body[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield body
        return
    at = _XERIAL_HEADER_BYTES
    if len(body) < at:
        raise CanNotDecompress("the header of its snappy frame is cut")
    while at < len(body):
        if at + _BLOCK_LENGTH.size > len(body):
            raise CanNotDecompress("the length of a snappy block is cut")
        (length,) = _BLOCK_LENGTH.unpack_from(body, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= length <= len(body) - at:
            raise CanNotDecompress(f"a snappy block has {length} bytes, and {len(body) - at} are there")
        yield body[at : at + length]
        at += length


def _preamble(block: memoryview) -> int:
    """How many bytes a snappy block says it holds: a plain varint at its beginning."""
    size = 0
    for index, byte in enumerate(block[:_MAX_PREAMBLE_BYTES]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise CanNotDecompress("a snappy block does not say how much it holds")
