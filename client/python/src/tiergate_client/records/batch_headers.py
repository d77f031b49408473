"""Finds the batches of a part of a log and reads their headers; records are not decoded here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tiergate_client._fast_crc32c import fast_crc32c
from tiergate_client.batch_layout import (
    CHECKSUMMED_FROM,
    CODEC_MASK,
    CONTROL,
    HAS_DELETE_HORIZON,
    LENGTH_AT,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)
from tiergate_client.records.batch_format import HEADER_DTYPE, Codec, TimestampType
from tiergate_client.records.batch_table import (
    BASE_OFFSET,
    CRC32C,
    END,
    HEADER_START,
    LAST_OFFSET,
    TABLE_DTYPE,
    by_name,
)
from tiergate_client.records.batch_walking import LENGTH_TO_MAGIC, MIN_LENGTH, WalkedBatches, walk_batches
from tiergate_client.records.control_records import control_type
from tiergate_client.records.defects import BatchDefect

WalkBatches: TypeAlias = Callable[[npt.NDArray[np.uint8]], WalkedBatches]

_LEGACY_MIN_LENGTH: Final = 14
_OWN_FIELDS: Final = (
    "base_offset",
    "last_offset",
    "leader_epoch",
    "attributes",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
"""Of a BatchHeader, that are columns of the table."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """One batch: where it is, which offsets it spans, who wrote it. Compaction keeps the span when records go."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    control_type: int | None
    """Of a control batch with a record; see ControlType."""

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on tombstones may go. It stands in the base timestamp; timestamps of records count from there."""
        return self.base_timestamp_ms if self.attributes & HAS_DELETE_HORIZON else None


@dataclass(frozen=True, slots=True)
class ScannedBatches:
    """The whole batches at the beginning of a buffer, up to the first defect or to a batch that is cut."""

    buffer: memoryview
    base_position: int
    """Where the buffer begins in its segment: positions of headers and errors count from the segment's beginning."""
    table: npt.NDArray[np.int64]
    """The headers; see `batch_table.py`."""
    end_position: int
    """Where the last whole batch ends: a reader of a stream goes on from there."""
    defect: BatchDefect | None
    """What follows the batches, when that is no batch."""

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[BatchHeader]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> BatchHeader:
        header = dict(zip(TABLE_DTYPE.names or (), self.table[number].tolist(), strict=True))
        is_control = header["attributes"] & CONTROL
        body = self.buffer[header["records_start"] : header["records_end"]]
        return BatchHeader(
            position=header["start"] + self.base_position,
            size_bytes=header["length"] + LENGTH_ENDS_AT,
            control_type=control_type(body) if is_control else None,
            **{name: header[name] for name in _OWN_FIELDS},
        )

    @property
    def fields(self) -> npt.NDArray[Any]:
        """The table by the names of its columns, as TABLE_DTYPE."""
        return by_name(self.table)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where in the buffer each batch begins."""
        return self.table[:, HEADER_START]

    def position(self, number: int) -> int:
        """Where in the segment a batch begins."""
        return int(self.starts[number]) + self.base_position

    @property
    def last_offsets(self) -> npt.NDArray[np.int64]:
        """Of each batch, as its header says: compaction may have taken the record."""
        return self.table[:, LAST_OFFSET]

    def touching(self, start_offset: int, stop_offset: int) -> npt.NDArray[np.bool_]:
        """Which of them hold offsets of [start_offset, stop_offset)."""
        return (self.last_offsets >= start_offset) & (self.table[:, BASE_OFFSET] < stop_offset)

    def until(self, number: int, reason: str | None = None) -> ScannedBatches:
        """The batches before this one, which is refused if there is a reason."""
        position = self.position(number)
        defect = None if reason is None else BatchDefect(position, reason)
        return replace(self, table=self.table[:number], end_position=position, defect=defect)

    def part(self, begin: int, end: int) -> ScannedBatches:
        """The batches from one number to before another; what follows them is not told."""
        return replace(self, table=self.table[begin:end], defect=None)

    def those(self, is_wanted: npt.NDArray[np.bool_]) -> ScannedBatches:
        """The batches for which it is true; what follows them is not told."""
        return replace(self, table=self.table if is_wanted.all() else self.table[is_wanted], defect=None)

    def first_wrong_checksum(self) -> int | None:
        """The first batch whose bytes do not match."""
        wrong = self.wrong_checksums()
        return wrong[0] if wrong else None

    def wrong_checksums(self) -> list[int]:
        """All batches whose bytes do not match; a log has up to millions of batches, hence few steps."""
        checksum = fast_crc32c()
        view, starts, ends = self.buffer, self.table[:, HEADER_START] + CHECKSUMMED_FROM, self.table[:, END]
        found = [checksum(view[start:stop]) for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)]
        expected: list[int] = self.table[:, CRC32C].tolist()
        return [] if found == expected else [number for number, it in enumerate(found) if it != expected[number]]


def scan_batches(
    buffer: bytes | bytearray | memoryview,
    *,
    base_position: int = 0,
    is_whole: bool = False,
    walk: WalkBatches = walk_batches,
) -> ScannedBatches:
    """Headers are checked for sense, not against checksums. Never raises: see `defect`.

    `is_whole` says that the buffer ends where its segment ends; a batch that is cut is then a defect. `walk` is an
    engine's, where one is at hand.
    """
    view = memoryview(buffer).cast("B")
    table, end, is_sound = walk(np.frombuffer(view, np.uint8))
    defect = None
    if not is_sound:
        defect = BatchDefect(end + base_position, _what_makes_no_sense(view[end:]))
    elif is_whole and end < len(view):
        defect = BatchDefect(end + base_position, f"only {len(view) - end} of its bytes are there")
    return ScannedBatches(view, base_position, table, end + base_position, defect)


def _what_makes_no_sense(batch: memoryview) -> str:
    length, magic = LENGTH_TO_MAGIC.unpack_from(batch, LENGTH_AT)
    # The magic goes first: what follows it is laid out differently in other formats.
    if magic != MAGIC or length < MIN_LENGTH:
        return _about_beginning(length, magic)
    header = np.frombuffer(batch, HEADER_DTYPE, count=1)[0]
    codec = int(header["attributes"]) & CODEC_MASK
    if codec > max(Codec):
        return f"its codec is {codec}, and the last one that is known is {max(Codec):d}"
    return (
        f"its header makes no sense (base offset {header['base_offset']}, last offset delta "
        f"{header['last_offset_delta']}, {header['record_count']} records in {header['length']} bytes)"
    )


def _about_beginning(length: int, magic: int) -> str:
    if magic in (0, 1) and length >= _LEGACY_MIN_LENGTH:
        return f"it has the old format {magic}, and only format {MAGIC} is read, which Kafka writes since 0.11"
    if magic != MAGIC:
        return f"its format is {magic}, and only format {MAGIC} is read"
    return f"its length is {length}, and a header alone has {MIN_LENGTH}"
