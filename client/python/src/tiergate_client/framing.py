"""Chunk messages written and read by hand, byte for byte what protobuf would write.

A chunk is a few small fields and, last, up to 2 MiB of data. Building the message copies the data, serialising it
copies it again; here tag and length are put in front of the buffer in one copy or none, and read off without any.

    CopySegmentRequest   = 0x12 length Chunk
    Chunk                = 0x08 file  0x10 offset  0x1d crc32c[4, little-endian]  0x7a length data
    FetchSegmentResponse = 0x08 offset  0x15 crc32c[4]  (0x1d stream-crc32c[4])?  0x7a length data
    FetchIndexResponse   = 0x08 size  0x15 crc32c[4]  0x7a length data
    BatchFetchIndexesResponse = { 0x0a length IndexAnswer }
    IndexAnswer          = 0x15 crc32c[4]  0x7a length data

Like protobuf's, fields of value 0 are left out, unless their presence means something (stream-crc32c). Whatever order
or unknown fields another writer chooses is read all the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO

from tiergate_client.varints import encode_varint

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_COPY_CHUNK_TAG = b"\x12"
_ITEM_TAG = b"\x0a"
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
    head += _data_head(len(data))
    return b"".join((_COPY_CHUNK_TAG, encode_varint(len(head) + len(data)), head, data))


class FetchedChunkFrame:
    """A message of FetchSegment's stream whose data is read into its place, `data`, behind the head that comes later.

    BytesIO gives its buffer away as `bytes` without a copy when nobody looks at it any more: nothing else in Python
    can be filled in place and then be sent. The copy that it saves took 5 % of a download.
    """

    __slots__ = ("_data_head", "_head_bytes", "_is_last", "_message", "_offset_field", "_whole", "data")

    def __init__(self, *, offset: int, data_bytes: int, is_last: bool) -> None:
        self._offset_field = _varint_field(b"\x08", offset)
        self._data_head = _data_head(data_bytes)
        self._is_last = is_last
        self._head_bytes = len(self._offset_field) + (10 if is_last else 5) + len(self._data_head)
        self._message = BytesIO(bytes(self._head_bytes + data_bytes))
        self._whole = self._message.getbuffer()
        self.data = self._whole[self._head_bytes :]

    def finished(self, *, crc32c: int, stream_crc32c: int) -> bytes:
        """The message, once; `data` is gone with it. Only the last one tells the stream's checksum."""
        stream = b"\x1d" + _fixed32.pack(stream_crc32c) if self._is_last else b""
        head = b"".join((self._offset_field, _fixed32_field(b"\x15", crc32c), stream, self._data_head))
        if len(head) < self._head_bytes:  # the checksum happens to be 0
            return b"".join((head, self.data))
        self._whole[: self._head_bytes] = head
        self.data.release()
        self._whole.release()
        return self._message.getvalue()


def frame_index_piece(*, size_bytes: int, crc32c: int, data: bytes | memoryview) -> bytes:
    return b"".join((_varint_field(b"\x08", size_bytes), _fixed32_field(b"\x15", crc32c), _data_head(len(data)), data))


def frame_index_answer(*, crc32c: int, data: bytes | memoryview) -> bytes:
    """One item of a BatchFetchIndexesResponse, which is nothing but its items one after another."""
    head = _fixed32_field(b"\x15", crc32c) + _data_head(len(data))
    return b"".join((_ITEM_TAG, encode_varint(len(head) + len(data)), head, data))


def frame_index_refusal(answer: bytes) -> bytes:
    """The same of an IndexAnswer that protobuf wrote, with a status instead of data."""
    return b"".join((_ITEM_TAG, encode_varint(len(answer)), answer))


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
        tag = message[position]
        if tag < 0x80:
            position += 1
        else:
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


def _data_head(data_bytes: int) -> bytes:
    return _DATA_TAG + encode_varint(data_bytes) if data_bytes else b""


def _varint_field(tag: bytes, value: int) -> bytes:
    return tag + encode_varint(value) if value else b""


def _fixed32_field(tag: bytes, value: int) -> bytes:
    return tag + _fixed32.pack(value) if value else b""


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise MalformedMessage("a number does not end")
