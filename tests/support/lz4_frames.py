"""LZ4 frames with every option that a writer may choose, of blocks that are stored as they are; no library."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK = 0xFFFFFFFF


def stored_frame(
    blocks: Sequence[bytes],
    *,
    block_checksums: bool = False,
    content_checksum: bool = False,
    content_size: bool = False,
    block_size_id: int = 4,
) -> bytes:
    content = b"".join(blocks)
    flags = 0x60 | block_checksums << 4 | content_size << 3 | content_checksum << 2
    descriptor = bytes((flags, block_size_id << 4)) + (struct.pack("<Q", len(content)) if content_size else b"")
    frame = struct.pack("<I", 0x184D2204) + descriptor + bytes((xxhash32(descriptor) >> 8 & 0xFF,))
    for block in blocks:
        frame += struct.pack("<I", 0x80000000 | len(block)) + block
        frame += struct.pack("<I", xxhash32(block)) if block_checksums else b""
    frame += struct.pack("<I", 0)
    return frame + (struct.pack("<I", xxhash32(content)) if content_checksum else b"")


def xxhash32(content: bytes) -> int:
    one, two, three, four, five = _PRIMES
    at, size = 0, len(content)
    if size >= 16:
        lanes = [one + two & _MASK, two, 0, -one & _MASK]
        while at + 16 <= size:
            for lane in range(4):
                (word,) = struct.unpack_from("<I", content, at + 4 * lane)
                lanes[lane] = _rotated(lanes[lane] + word * two, 13) * one & _MASK
            at += 16
        mixed = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        mixed = five
    mixed = mixed + size & _MASK
    while at + 4 <= size:
        (word,) = struct.unpack_from("<I", content, at)
        mixed = _rotated(mixed + word * three, 17) * four & _MASK
        at += 4
    for byte in content[at:]:
        mixed = _rotated(mixed + byte * five, 11) * one & _MASK
    mixed = (mixed ^ mixed >> 15) * two & _MASK
    mixed = (mixed ^ mixed >> 13) * three & _MASK
    return mixed ^ mixed >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 32 - bits) & _MASK
