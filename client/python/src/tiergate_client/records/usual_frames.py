"""Decompresses the frames of lz4 and zstd that producers write, by libraries that keep what they need from one frame to
the next: pyarrow sets all of it up again for each, which for a batch of 16 KiB takes longer than to decompress it.

What is unusual in any way, damaged, or too large is not done here but told, so that one place knows all forms and says
what is wrong. The libraries are optional.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tiergate_client.records.batch_format import Codec

IntoRoom: TypeAlias = Callable[[memoryview, memoryview], int | None]
"""Writes what a body holds into the room; how much that was, or None if it is no usual frame or has no room."""

# Blocks of 64 KiB that stand by themselves, no checksums but that of the header: Java's clients and librdkafka's.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_SIZE: Final = struct.Struct("<I")

_ZSTD_MAGIC: Final = bytes.fromhex("28b52ffd")
_ZSTD_DESCRIPTOR_AT: Final = len(_ZSTD_MAGIC)
_ZSTD_CHECKSUM: Final = 4
_ZSTD_CHECKSUM_BYTES: Final = 4
_ZSTD_BLOCK_HEADER_BYTES: Final = 3
_ZSTD_LAST_BLOCK, _ZSTD_RUN = 1, 1
_ZSTD_MOST_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""What every decoder has to support, by zstd's own recommendation."""


def usual_frames() -> dict[Codec, IntoRoom]:
    """For codecs whose library is there. Not to be shared by threads."""
    found: dict[Codec, IntoRoom] = {}
    try:
        import lz4.block  # noqa: PLC0415 - optional, as below
    except ImportError:
        pass
    else:
        found[Codec.LZ4] = _Lz4Frames(lz4.block)
    try:
        import zstandard  # noqa: PLC0415
    except ImportError:
        pass
    else:
        found[Codec.ZSTD] = _ZstdFrames(zstandard)
    return found


class _Lz4Frames:
    def __init__(self, library: Any) -> None:
        self._decompress, self._refused = library.decompress, library.LZ4BlockError

    def __call__(self, body: memoryview, room: memoryview) -> int | None:
        if body[: len(_LZ4_HEADER)] != _LZ4_HEADER:
            return None
        at, written = len(_LZ4_HEADER), 0
        while at + _LZ4_SIZE.size <= len(body):
            (size,) = _LZ4_SIZE.unpack_from(body, at)
            at += _LZ4_SIZE.size
            if not size:
                return written if at == len(body) else None
            stored_bytes = size & ~_LZ4_STORED
            if stored_bytes > _LZ4_BLOCK_BYTES:
                return None
            block = body[at : at + stored_bytes]
            at += stored_bytes
            if not size & _LZ4_STORED:
                try:
                    block = self._decompress(block, uncompressed_size=_LZ4_BLOCK_BYTES)
                except self._refused:
                    return None
            if len(block) > min(_LZ4_BLOCK_BYTES, len(room) - written):
                return None
            room[written : written + len(block)] = block
            written += len(block)
        return None


class _ZstdFrames:
    def __init__(self, library: Any) -> None:
        self._decompressor = library.ZstdDecompressor(max_window_size=_ZSTD_MOST_WINDOW_BYTES)
        self._refused = library.ZstdError

    def __call__(self, body: memoryview, room: memoryview) -> int | None:
        # The reader takes a frame that is cut for one that is whole.
        if not _is_one_zstd_frame(body):
            return None
        try:
            written: int = self._decompressor.stream_reader(body).readinto(room)
        except self._refused:
            return None
        return written if written < len(room) else None


def _is_one_zstd_frame(body: memoryview) -> bool:
    """Whether it ends where the frame that it begins with does."""
    if len(body) <= _ZSTD_DESCRIPTOR_AT or body[:_ZSTD_DESCRIPTOR_AT] != _ZSTD_MAGIC:
        return False
    descriptor = body[_ZSTD_DESCRIPTOR_AT]
    at, end = _ZSTD_HEADER_BYTES[descriptor], len(body)
    while at < end:
        header = int.from_bytes(body[at : at + _ZSTD_BLOCK_HEADER_BYTES], "little")
        is_run = header >> 1 & 3 == _ZSTD_RUN
        at += _ZSTD_BLOCK_HEADER_BYTES + (1 if is_run else header >> 3)
        if header & _ZSTD_LAST_BLOCK:
            return at + (_ZSTD_CHECKSUM_BYTES if descriptor & _ZSTD_CHECKSUM else 0) == end
    return False


def _zstd_header_bytes(descriptor: int) -> int:
    is_single_segment = bool(descriptor & 0x20)
    window_bytes = 0 if is_single_segment else 1
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    content_size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    return _ZSTD_DESCRIPTOR_AT + 1 + window_bytes + dictionary_bytes + content_size_bytes


_ZSTD_HEADER_BYTES: Final = tuple(map(_zstd_header_bytes, range(256)))
