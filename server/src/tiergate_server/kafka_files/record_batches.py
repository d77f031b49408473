"""Record batches of magic 2, as a producer or a transaction coordinator writes them, uncompressed.

    batch  = base-offset[i64] length[i32] leader-epoch[i32] magic[i8]=2 crc32c[u32] attributes[i16]
             last-offset-delta[i32] base-timestamp[i64] max-timestamp[i64] producer-id[i64] producer-epoch[i16]
             base-sequence[i32] count[i32] { record }
    record = length[v] attributes[i8]=0 timestamp-delta[v] offset-delta[v]
             key-length[v] key value-length[v] value header-count[v] { key-length[v] key value-length[v] value }

Big-endian; [v] is a zig-zag varint; a length of -1 is null. `length` counts what follows it, the checksum covers
everything from the attributes on. The tests hold a worked example. Decoding records is not done here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from tiergate_client.batch_layout import (
    CHECKSUMMED_FROM,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    MAGIC,
    TRANSACTIONAL,
)
from tiergate_client.varints import encode_varint


@dataclass(frozen=True, slots=True)
class Record:
    """One record to be written. Its offset is its place in the batch."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Producer:
    """Who wrote a batch: idempotent producers have an id, an epoch and count their records."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """An encoded batch, with those of its header's fields that logs, indexes and snapshots are made of."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    content: bytes


ANONYMOUS = Producer()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    leader_epoch: int,
    producer: Producer = ANONYMOUS,
    attributes: int = 0,
) -> Batch:
    base_timestamp = records[0].timestamp_ms
    max_timestamp = max(record.timestamp_ms for record in records)
    body = b"".join(_encode_record(record, delta, base_timestamp) for delta, record in enumerate(records))
    content = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        content,
        0,
        base_offset,
        len(content) - LENGTH_ENDS_AT,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer.producer_id,
        producer.epoch,
        producer.base_sequence,
        len(records),
    )
    content[HEADER_BYTES:] = body
    struct.pack_into(">I", content, CHECKSUMMED_FROM - 4, crc32c(memoryview(content)[CHECKSUMMED_FROM:]))
    return Batch(base_offset, base_offset + len(records) - 1, max_timestamp, bytes(content))


def encode_transaction_marker(
    *,
    commit: bool,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> Batch:
    """The control batch that ends a transaction: one record, outside of the producer's sequence."""
    marker = Record(
        timestamp_ms,
        key=struct.pack(">hh", 0, 1 if commit else 0),
        value=struct.pack(">hi", 0, coordinator_epoch),
    )
    return encode_batch(
        [marker],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer=Producer(producer_id, producer_epoch),
        attributes=TRANSACTIONAL | CONTROL,
    )


def _encode_record(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    parts = [
        b"\x00",
        varint(record.timestamp_ms - base_timestamp),
        varint(offset_delta),
        _nullable(record.key),
        _nullable(record.value),
        varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += [_nullable(name.encode("utf-8")), _nullable(value)]
    body = b"".join(parts)
    return varint(len(body)) + body


def _nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def varint(number: int) -> bytes:
    """Zig-zag, so that small negative numbers are short."""
    return encode_varint((number << 1) ^ (number >> 63))
