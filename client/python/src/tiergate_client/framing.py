"""Chunk messages written and read by hand, byte for byte what protobuf would write.

A chunk is a few small fields and, last, up to 2 MiB of data. Building the message copies the data, serialising it
copies it again; here tag and length are put in front of the buffer in one copy, and read off without any.

    CopySegmentRequest   = 0x12 length Chunk
    Chunk                = 0x08 file  0x10 offset  0x1d crc32c[4, little-endian]  0x7a length data
    FetchSegmentResponse = 0x08 offset  0x15 crc32c[4]  (0x1d stream-crc32c[4])?  0x7a length data
    FetchIndexResponse   = 0x08 size  0x15 crc32c[4]  0x7a length data

Like protobuf's, fields of value 0 are left out, unless their presence means something (stream-crc32c). Whatever order
or unknown fields another writer chooses is read all the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tiergate_client.varints import encode_varint

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_COPY_CHUNK_TAG = b"\x12"
_DATA_TAG = b"\x7a"
_DATA_FIELD = 15
_fixed32 = struct.Struct("<I")

Fields = dict[int, int | memoryview]


class MalformedMessage(ValueError):
    """These bytes are no protobuf message."""


@dataclass(frozen=True, slots=True)
class FetchedChunk:
    """A message of FetchSegment's stream."""

    offset: int
    crc32c: int
    stream_crc32c: int | None
    data: memoryview


def frame_copy_chunk(*, file: int, offset: int, crc32c: int, data: bytes | memoryview) -> bytes:
    head = b"".join((_varint_field(b"\x08", file), _varint_field(b"\x10", offset), _fixed32_field(b"\x1d", crc32c)))
    head += _data_head(data)
    return b"".join((_COPY_CHUNK_TAG, encode_varint(len(head) + len(data)), head, data))


def frame_fetched_chunk(*, offset: int, crc32c: int, stream_crc32c: int | None, data: bytes | memoryview) -> bytes:
    stream = b"" if stream_crc32c is None else b"\x1d" + _fixed32.pack(stream_crc32c)
    head = (_varint_field(b"\x08", offset), _fixed32_field(b"\x15", crc32c), stream, _data_head(data))
    return b"".join((*head, data))


def frame_index_piece(*, size_bytes: int, crc32c: int, data: bytes | memoryview) -> bytes:
    return b"".join((_varint_field(b"\x08", size_bytes), _fixed32_field(b"\x15", crc32c), _data_head(data), data))


def parse_fetched_chunk(message: bytes) -> FetchedChunk:
    fields = parse_fields(memoryview(message))
    return FetchedChunk(
        offset=number(fields, 1),
        crc32c=number(fields, 2),
        stream_crc32c=number(fields, 3) if 3 in fields else None,
        data=buffer(fields, _DATA_FIELD),
    )


def parse_fields(message: memoryview) -> Fields:
    """Field number -> value, the last one where a field repeats. Buffers are views into the message."""
    fields: Fields = {}
    position, end = 0, len(message)
    while position < end:
        tag, position = _read_varint(message, position)
        kind = tag & 7
        value: int | memoryview
        if kind == _VARINT:
            value, position = _read_varint(message, position)
        elif kind == _LENGTH:
            size, position = _read_varint(message, position)
            value, position = message[position : position + size], position + size
        elif kind == _FIXED32:
            value, position = int.from_bytes(message[position : position + 4], "little"), position + 4
        elif kind == _FIXED64:
            value, position = int.from_bytes(message[position : position + 8], "little"), position + 8
        else:
            raise MalformedMessage(f"wire type {kind} is not known")
        if position > end:
            raise MalformedMessage("the message ends inside a field")
        fields[tag >> 3] = value
    return fields


def number(fields: Fields, field: int) -> int:
    """An int64 or smaller; negative ones travel as their two's complement."""
    value = fields.get(field, 0)
    if not isinstance(value, int):
        raise MalformedMessage(f"field {field} is no number")
    return value - (1 << 64) if value >> 63 else value


def buffer(fields: Fields, field: int) -> memoryview:
    value = fields.get(field, memoryview(b""))
    if not isinstance(value, memoryview):
        raise MalformedMessage(f"field {field} is no buffer")
    return value


def _data_head(data: bytes | memoryview) -> bytes:
    return _DATA_TAG + encode_varint(len(data)) if len(data) else b""


def _varint_field(tag: bytes, value: int) -> bytes:
    return tag + encode_varint(value) if value else b""


def _fixed32_field(tag: bytes, value: int) -> bytes:
    return tag + _fixed32.pack(value) if value else b""


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for index in range(position, min(position + 10, len(message))):
        byte = message[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, index + 1
        shift += 7
    raise MalformedMessage("a number does not end")
