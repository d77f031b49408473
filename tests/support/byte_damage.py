"""Damages the bytes of a log at random: what disks, networks and programs do to files. What follows is not known here.

Much of it hits what no checksum covers, or happens along the borders of batches, where it is the hardest to notice.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from support.known_segments import KnownSegment

Harm: TypeAlias = Callable[[bytearray, KnownSegment, random.Random], str]

_UNCOVERED = {"base offset": (0, ">q"), "length": (8, ">i"), "leader epoch": (12, ">i"), "magic": (16, ">b")}
_CHECKSUM_ENDS_AT = 21
_HEADER_BYTES = 61


@dataclass(frozen=True, slots=True)
class Damage:
    """`claimed_bytes` are those that the metadata say: other than there are when the damage came behind the copying."""

    content: bytes
    claimed_bytes: int
    story: str


def damaged(segment: KnownSegment, numbers: random.Random) -> Damage:
    content = bytearray(segment.log)
    story = [numbers.choice(_HARMS)(content, segment, numbers) for _ in range(numbers.choice([1, 1, 1, 2, 3]))]
    claimed = numbers.choice([len(segment.log), len(content)])
    return Damage(bytes(content), claimed, ", ".join(story))


def _some_bytes(content: bytearray, _: KnownSegment, numbers: random.Random) -> str:
    places = [numbers.randrange(len(content) or 1) for _ in range(numbers.choice([1, 1, 2, 5]))]
    for at in places:
        content[at : at + 1] = bytes([_at(content, at) ^ numbers.randrange(1, 256)])
    return f"bytes at {places}"


def _header_byte(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    at = _batch(segment, numbers) + numbers.randrange(numbers.choice([_CHECKSUM_ENDS_AT, _HEADER_BYTES]))
    content[at : at + 1] = bytes([_at(content, at) ^ numbers.choice([1, 2, 0x80, 0xFF, numbers.randrange(1, 256)])])
    return f"header byte at {at}"


def _uncovered_number(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    name = numbers.choice(["base offset", "base offset", *_UNCOVERED])
    place, form = _UNCOVERED[name]
    at, number = _batch(segment, numbers) + place, struct.Struct(form)
    if at + number.size > len(content):
        return "nothing"
    (before,) = number.unpack_from(content, at)
    (of_another,) = number.unpack_from(segment.log, _batch(segment, numbers) + place)
    (at_random,) = number.unpack(numbers.randbytes(number.size))
    near = before + numbers.choice([-1000, -10, -2, -1, 1, 2, 10, 1000])
    most = 1 << (8 * number.size - 1)
    wanted = numbers.choice([near, near, near, of_another, at_random, 0, -1, -most, most - 1])
    number.pack_into(content, at, max(-most, min(wanted, most - 1)))
    return f"{name} at {at} is {wanted} instead of {before}"


def _cut(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    size = numbers.choice(
        [numbers.randrange(len(content) + 1), _batch(segment, numbers) + numbers.choice([0, 0, 1, 17])]
    )
    del content[size:]
    return f"cut to {size}"


def _removed(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    begin, end = _range(content, segment, numbers)
    del content[begin:end]
    return f"without [{begin}, {end})"


def _repeated(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    begin, end = _range(content, segment, numbers)
    at = numbers.choice([begin, end, _range(content, segment, numbers)[0]])
    content[at:at] = content[begin:end]
    return f"[{begin}, {end}) again at {at}"


def _overwritten(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    begin, end = _range(content, segment, numbers)
    at, _ = _range(content, segment, numbers)
    replacement = numbers.choice([bytes(content[begin:end]), bytes(end - begin), b"\xff" * (end - begin)])
    content[at : at + len(replacement)] = replacement[: len(content) - at]
    return f"[{begin}, {end}), or zeros or ones, over {at}"


def _swapped(content: bytearray, segment: KnownSegment, numbers: random.Random) -> str:
    (begin, end), (other, other_end) = sorted([_range(content, segment, numbers), _range(content, segment, numbers)])
    end = min(end, other)
    if numbers.random() < 0.3:  # neighbours
        other = end
    content[begin:other_end] = content[other:other_end] + content[end:other] + content[begin:end]
    return f"[{begin}, {end}) and [{other}, {other_end}) swapped"


_HARMS: tuple[Harm, ...] = (
    _some_bytes,
    _header_byte,
    _uncovered_number,
    _uncovered_number,
    _cut,
    _removed,
    _repeated,
    _overwritten,
    _swapped,
)


def _at(content: bytearray, at: int) -> int:
    return content[at] if at < len(content) else 0


def _batch(segment: KnownSegment, numbers: random.Random) -> int:
    return numbers.choice(segment.batches).position


def _range(content: bytearray, segment: KnownSegment, numbers: random.Random) -> tuple[int, int]:
    """Of whole batches, as long as nothing was moved before, or of any bytes."""
    if numbers.random() < 0.5:
        first = numbers.randrange(len(segment.batches))
        last = segment.batches[min(first + numbers.choice([0, 0, 1, 3]), len(segment.batches) - 1)]
        begin, end = segment.batches[first].position, last.position + last.size_bytes
    else:
        begin = numbers.randrange(len(content) + 1)
        end = begin + numbers.choice([1, 2, 8, 61, 500, numbers.randrange(len(content) + 1)])
    return min(begin, len(content)), min(end, len(content))
