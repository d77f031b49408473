"""Records of batches decoded the plain way, one number after another: what the fast decoder is compared with."""

from __future__ import annotations

import codecs
import io
import struct
import zlib
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from crc32c import crc32c

Row: TypeAlias = dict[str, object]

_MAX_BATCH_BYTES = 128 << 20


class Unreadable(Exception):
    """The batch at this position can not be read."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"{position}: {why}")
        self.position = position


class _Bad(Exception):
    pass


@dataclass(slots=True)
class _Reader:
    content: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.content):
            raise _Bad("too short")
        self.at += count
        return self.content[self.at - count : self.at]

    def number(self, bits: int) -> int:
        raw = shift = 0
        while True:
            (byte,) = self.take(1)
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise _Bad("number too long")
        if raw >= 1 << bits:
            raise _Bad("number too large")
        return -(raw // 2) - 1 if raw % 2 else raw // 2

    def nullable(self) -> bytes | None:
        length = self.number(32)
        return None if length == -1 else self.take(length)


def slow_rows(content: bytes, *, check_crc: bool = True) -> list[Row]:
    """Every record of every whole batch. Raises Unreadable."""
    rows, _ = slow_rows_until_defect(content, check_crc=check_crc)
    return rows


def slow_rows_until_defect(content: bytes, *, check_crc: bool = True) -> tuple[list[Row], int | None]:
    """The records before the first batch that can not be read, and where that is."""
    rows: list[Row] = []
    position = 0
    # Headers are looked at first, all of them: whatever they say of lengths decides what a batch is.
    while len(content) - position > 16:
        try:
            size = _size(content, position)
            if size > len(content) - position:
                break
            rows += _batch_rows(content[position : position + size], check_crc=check_crc)
        except _Bad:
            return rows, position
        position += size
    return rows, None


def _size(content: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">i", content, position + 8)
    if content[position + 16] != 2 or length < 49:
        raise _Bad("no batch")
    return int(length) + 12


def _batch_rows(batch: bytes, *, check_crc: bool) -> list[Row]:
    base_offset, _, _, _, crc, attributes, last_delta, base_time, max_time, _, _, _, count = struct.unpack(
        ">qiibIhiqqqhii", batch[:61]
    )
    body = batch[61:]
    if base_offset < 0 or last_delta < 0 or base_offset + last_delta >= (1 << 63) - 1:
        raise _Bad("offsets")
    if count < 0 or count > last_delta + 1 or (count == 0 and body) or attributes & 7 > 4:
        raise _Bad("header")
    if check_crc and crc32c(batch[21:]) != crc:
        raise _Bad("checksum")
    if attributes & 0x20 or not count:
        return []
    reader = _Reader(_decompressed(attributes & 7, body))
    rows: list[Row] = []
    previous = -1
    for _ in range(count):
        delta, delta_ms, key, value, headers = _record(_Reader(reader.take(reader.number(32))))
        if not previous < delta <= last_delta:
            raise _Bad("offset")
        previous = delta
        is_append_time = bool(attributes & 8)
        rows.append(
            {
                "key": key,
                "value": value,
                "offset": base_offset + delta,
                "timestamp": max_time if is_append_time else _int64(base_time + delta_ms),
                "timestamp_type": int(is_append_time),
                "headers": headers,
            }
        )
    if reader.at != len(reader.content):
        raise _Bad("rest")
    return rows


def _as_java(error: UnicodeError) -> tuple[str, int]:
    """Replaces what is wrong as Java does, to whom an encoded surrogate is one mistake, also where its end is cut."""
    assert isinstance(error, UnicodeDecodeError)
    lead, *rest = error.object[error.start : error.start + 3]
    end = error.end
    if lead == 0xED and rest and 0xA0 <= rest[0] <= 0xBF:
        end = error.start + 2 + (len(rest) == 2 and 0x80 <= rest[1] <= 0xBF)
    return "\ufffd", end


codecs.register_error("as_java", _as_java)


def _record(record: _Reader) -> tuple[int, int, bytes | None, bytes | None, list[Row]]:
    record.take(1)
    delta_ms, delta = record.number(64), record.number(32)
    key, value = record.nullable(), record.nullable()
    header_count = record.number(32)
    if header_count < 0:
        raise _Bad("headers")
    headers: list[Row] = []
    for _ in range(header_count):
        name = record.nullable()
        if name is None:
            raise _Bad("header without key")
        headers.append({"key": name.decode("utf-8", "as_java"), "value": record.nullable()})
    if record.at != len(record.content):
        raise _Bad("record length")
    return delta, delta_ms, key, value, headers


def _int64(number: int) -> int:
    """As Java adds."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _decompressed(codec: int, body: bytes) -> bytes:
    try:
        if codec == 0:
            return body
        if codec == 1:
            return _gzip(body)
        if codec == 2:
            return _snappy(body)
        return _all_of(pa.CompressedInputStream(io.BytesIO(body), {3: "lz4", 4: "zstd"}[codec]))
    except (OSError, EOFError, zlib.error, ValueError, pa.ArrowException, struct.error) as error:
        raise _Bad(str(error)) from error


def _gzip(body: bytes) -> bytes:
    """By zlib: Python's own module passes over flags in the header that no writer sets."""
    plain = b""
    while True:
        member = zlib.decompressobj(wbits=31)
        plain += member.decompress(body, _MAX_BATCH_BYTES + 1)
        if not member.eof:
            raise _Bad("cut, or too large")
        body = member.unused_data
        if not body:
            return plain


def _all_of(stream: pa.CompressedInputStream) -> bytes:
    content: bytes = stream.read(_MAX_BATCH_BYTES + 1)
    if len(content) > _MAX_BATCH_BYTES:
        raise _Bad("too large")
    return content


def _snappy(body: bytes) -> bytes:
    if not body.startswith(b"\x82SNAPPY\x00"):
        return _snappy_block(body)
    plain, at = b"", 16
    if len(body) < at:
        raise _Bad("cut")
    while at < len(body):
        (length,) = struct.unpack_from(">i", body, at)
        if length < 0 or at + 4 + length > len(body):
            raise _Bad("cut")
        plain += _snappy_block(body[at + 4 : at + 4 + length])
        at += 4 + length
    return plain


def _snappy_block(block: bytes) -> bytes:  # noqa: C901
    """Element by element, as the format says; no library."""
    size, at, shift = 0, 0, 0
    while True:
        if at >= min(len(block), 5):
            raise _Bad("preamble")
        size |= (block[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if block[at - 1] < 0x80:
            break
    plain = bytearray()
    while at < len(block):
        tag, at = block[at], at + 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length, at = int.from_bytes(_piece(block, at, extra), "little") + 1, at + extra
            plain += _piece(block, at, length)
            at += length
            continue
        if kind == 1:
            length = ((tag >> 2) & 7) + 4
            distance = (tag >> 5) << 8 | _piece(block, at, 1)[0]
            at += 1
        else:
            width = 2 if kind == 2 else 4
            distance, at = int.from_bytes(_piece(block, at, width), "little"), at + width
        if not 0 < distance <= len(plain):
            raise _Bad("distance")
        for _ in range(length):
            plain.append(plain[-distance])
        if len(plain) > size:
            raise _Bad("longer than said")
    if len(plain) != size:
        raise _Bad("shorter than said")
    return bytes(plain)


def _piece(block: bytes, at: int, length: int) -> bytes:
    if at + length > len(block):
        raise _Bad("cut")
    return block[at : at + length]
