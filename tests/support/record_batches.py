"""Record batches of any content, also what no producer writes: headers and records can be given field by field."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from crc32c import crc32c

from tiergate_client.records import Codec

_HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True, slots=True)
class MadeRecord:
    """Deltas count from the batch's base offset and base timestamp."""

    offset_delta: int
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    def encode(self) -> bytes:
        body = bytearray(b"\x00" + varint(self.timestamp_delta) + varint(self.offset_delta))
        body += nullable(self.key) + nullable(self.value) + varint(len(self.headers))
        for key, value in self.headers:
            body += nullable(key) + nullable(value)
        return varint(len(body)) + bytes(body)


@dataclass(frozen=True, slots=True)
class MadeBatch:
    """A batch whose header may say anything; what is None is computed from the records."""

    records: tuple[MadeRecord, ...] = ()
    base_offset: int = 0
    attributes: int = 0
    base_timestamp_ms: int = 1_700_000_000_000
    max_timestamp_ms: int = 1_700_000_000_999
    producer_id: int = -1
    producer_epoch: int = -1
    last_offset_delta: int | None = None
    record_count: int | None = None
    magic: int = 2
    leader_epoch: int = 7
    body: bytes | None = None

    def but(self, **changes: object) -> MadeBatch:
        return replace(self, **changes)  # type: ignore[arg-type] # the names are checked by dataclasses

    def encode(self) -> bytes:
        body = self.body
        if body is None:
            plain = b"".join(record.encode() for record in self.records)
            body = compress(Codec(self.attributes & 7), plain) if self.records else b""
        last_delta = self.last_offset_delta
        if last_delta is None:
            last_delta = max((record.offset_delta for record in self.records), default=0)
        count = len(self.records) if self.record_count is None else self.record_count
        content = bytearray(
            _HEADER.pack(
                self.base_offset,
                _HEADER.size - 12 + len(body),
                self.leader_epoch,
                self.magic,
                0,
                self.attributes,
                last_delta,
                self.base_timestamp_ms,
                self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                -1,
                count,
            )
            + body
        )
        return with_right_checksum(content)


def with_right_checksum(batch: bytes | bytearray) -> bytes:
    """The batch as if it had been written that way."""
    content = bytearray(batch)
    struct.pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    return bytes(content)


def marker(kind: int, *, base_offset: int, producer_id: int) -> MadeBatch:
    """A control batch as a transaction coordinator writes it."""
    record = MadeRecord(0, key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, 13))
    return MadeBatch((record,), base_offset=base_offset, attributes=0x30, producer_id=producer_id, producer_epoch=2)


def compress(codec: Codec, plain: bytes) -> bytes:
    match codec:
        case Codec.NONE:
            return plain
        case Codec.GZIP:
            return gzip.compress(plain)
        case Codec.SNAPPY:
            return xerial_frame([plain])
        case Codec.LZ4:
            return bytes(pa.compress(plain, codec="lz4"))
        case Codec.ZSTD:
            return zstd_without_content_size(plain)


def xerial_frame(parts: Sequence[bytes]) -> bytes:
    """Snappy as Java's producers frame it."""
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for part in parts:
        block = raw_snappy(part)
        framed += struct.pack(">i", len(block)) + block
    return framed


def raw_snappy(plain: bytes) -> bytes:
    compressed: bytes = pa.compress(plain, codec="snappy", asbytes=True)
    return compressed


def zstd_without_content_size(plain: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(plain)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


def nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def varint(number: int) -> bytes:
    """Zig-zag."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
