"""A segment of a real broker whose records Kafka has told, and which of its batches damaged bytes still hold.

Nothing of the decoder is used. A batch that is whole is known by the bytes that its checksum covers: what has others is
damaged, however much sense it makes.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from support.kafka_records import Row
from tiergate_client.records import ALL_COLUMNS, AbortedTransaction, schema_of

SCHEMA: Final = schema_of(ALL_COLUMNS)

_FIRST_FIELDS = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_CRC_AT = 17
_OTHER_FIELDS = struct.Struct(">hi16xq")  # attributes, last offset delta, producer id
_OTHER_FIELDS_AT = 21
_HEADER_BYTES = 61
_CODEC, _TRANSACTIONAL = 0x07, 0x10
_LAST_OFFSET = (1 << 63) - 2  # so that there is an offset behind it, where a reader would go on


@dataclass(frozen=True, slots=True)
class KnownBatch:
    """As it stands in the sound log."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset_delta: int
    producer_id: int
    attributes: int
    first_row: int
    stop_row: int
    """Its records among those of the segment."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One of the known batches where damaged bytes have it. Its base offset may be another: no checksum covers it."""

    position: int
    base_offset: int
    known: KnownBatch

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.known.last_offset_delta

    @property
    def has_moved(self) -> bool:
        return self.base_offset != self.known.base_offset

    def is_aborted(self, aborted: Iterable[AbortedTransaction]) -> bool:
        return self.known.is_transactional and any(
            one.producer_id == self.known.producer_id
            and one.first_offset <= self.last_offset
            and self.base_offset <= one.last_offset
            for one in aborted
        )


@dataclass(frozen=True)
class KnownSegment:
    """`rows` are what Kafka's classes read from the log; `aborted` are the transactions of the whole partition."""

    name: str
    log: bytes
    start_offset: int
    end_offset: int
    rows: Any
    aborted: tuple[AbortedTransaction, ...]

    @classmethod
    def of(
        cls,
        name: str,
        log: bytes,
        *,
        start_offset: int,
        end_offset: int,
        rows: Sequence[Row],
        aborted: Iterable[AbortedTransaction],
    ) -> KnownSegment:
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        return cls(name, log, start_offset, end_offset, table, tuple(aborted))

    @cached_property
    def batches(self) -> tuple[KnownBatch, ...]:
        offsets = self.rows["offset"].to_pylist()
        found, position = [], 0
        while position < len(self.log):
            base, length, _, _ = _FIRST_FIELDS.unpack_from(self.log, position)
            attributes, delta, producer = _OTHER_FIELDS.unpack_from(self.log, position + _OTHER_FIELDS_AT)
            rows = bisect_left(offsets, base), bisect_left(offsets, base + delta + 1)
            found.append(KnownBatch(position, length + 12, base, delta, producer, attributes, *rows))
            position += length + 12
        assert found[-1].stop_row == len(offsets)
        return tuple(found)

    @cached_property
    def has_holes(self) -> bool:
        """Whether there are offsets between batches, or before or behind all of them, that none of them has."""
        ends = [self.start_offset - 1, *(batch.last_offset for batch in self.batches)]
        begins = [*(batch.base_offset for batch in self.batches), self.end_offset + 1]
        return any(end + 1 != begin for end, begin in zip(ends, begins, strict=True))

    @cached_property
    def _by_covered_bytes(self) -> dict[bytes, KnownBatch]:
        borders = [*(batch.position for batch in self.batches), len(self.log)]
        spans = zip(pairwise(borders), self.batches, strict=True)
        return {self.log[begin + _CRC_AT : end]: batch for (begin, end), batch in spans}

    @property
    def untouched(self) -> list[SeenBatch]:
        return [SeenBatch(batch.position, batch.base_offset, batch) for batch in self.batches]

    def batches_in(self, content: bytes) -> tuple[list[SeenBatch], int]:
        """Those at the beginning, one behind the other in any order, and where what follows is none of them."""
        seen: list[SeenBatch] = []
        position = 0
        while len(content) - position >= _HEADER_BYTES:
            base, length, _, magic = _FIRST_FIELDS.unpack_from(content, position)
            end = position + length + 12
            if magic != 2 or end > len(content):
                break
            known = self._by_covered_bytes.get(content[position + _CRC_AT : end])
            if known is None or base < 0 or base + known.last_offset_delta > _LAST_OFFSET:
                break
            seen.append(SeenBatch(position, base, known))
            position = end
        return seen, position

    def rows_of(self, seen: Iterable[SeenBatch]) -> Any:
        """Kafka's, with the offsets that count from the base offsets that were seen."""
        tables = [SCHEMA.empty_table()]
        for batch in seen:
            rows = self.rows.slice(batch.known.first_row, batch.known.stop_row - batch.known.first_row)
            if batch.has_moved and len(rows):
                distance = batch.base_offset - batch.known.base_offset
                moved = pa.array([offset + distance for offset in rows["offset"].to_pylist()], pa.int64())
                rows = rows.set_column(SCHEMA.get_field_index("offset"), SCHEMA.field("offset"), moved)
            tables.append(rows)
        return pa.concat_tables(tables)


def is_cut_batch(rest: bytes) -> bool:
    """Whether this may be the beginning of a batch, which would be longer."""
    if len(rest) < _FIRST_FIELDS.size:
        return True
    _, length, _, magic = _FIRST_FIELDS.unpack_from(rest)
    return bool(magic == 2 and length >= _HEADER_BYTES - 12 and length + 12 > len(rest))


def base_offset_in(rest: bytes) -> int | None:
    """What would be the base offset if a batch begins here."""
    return int(_FIRST_FIELDS.unpack_from(rest)[0]) if len(rest) >= _FIRST_FIELDS.size else None
