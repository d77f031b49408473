"""Batches without their compression, so that their records are decoded and their sizes known in one go.

How large the records of a batch are when they are not compressed stands nowhere; they must be decompressed to tell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tiergate_client.batch_layout import CODEC_MASK, HEADER_BYTES, LENGTH_AT, LENGTH_ENDS_AT
from tiergate_client.records.batch_format import Codec
from tiergate_client.records.batch_headers import ScannedBatches, scan_batches
from tiergate_client.records.decompression import CanNotDecompress, Decompressor
from tiergate_client.records.defects import BatchDefect, FoundDefect

_GROUP_BYTES: Final = 4 * 1024 * 1024
_ATTRIBUTES_AT: Final = 21
_length: Final = struct.Struct(">i")
_attributes: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class PlainBatches:
    """The same batches, uncompressed and with checksums that do not fit any more, and what they were before."""

    batches: ScannedBatches
    original: npt.NDArray[Any]
    """Their headers as they are stored."""
    base_position: int
    """Where in the segment the starts of those headers count from."""

    def stored_position(self, position: int) -> int:
        """Where in the segment the batch is stored that begins at a position of the uncompressed ones."""
        number = int(np.searchsorted(self.batches.starts, position))
        return int(self.original["start"][number]) + self.base_position

    @property
    def codecs(self) -> npt.NDArray[np.int64]:
        codecs: npt.NDArray[np.int64] = self.original["attributes"] & CODEC_MASK
        return codecs

    @property
    def stored_bytes(self) -> npt.NDArray[np.int64]:
        return self.original["length"].astype(np.int64) + LENGTH_ENDS_AT

    @property
    def plain_bytes(self) -> npt.NDArray[np.int64]:
        return self.batches.fields["length"].astype(np.int64) + LENGTH_ENDS_AT


def plain_batches(scanned: ScannedBatches, *, kept: npt.NDArray[np.bool_] | None) -> Iterator[PlainBatches]:
    """Those that are kept, or all, some megabytes at a time: what a batch may become is bounded by the decompressor.

    Control batches and empty ones are left out. Raises FoundDefect for a batch that can not be decompressed, behind
    those before it.
    """
    decompressor = Decompressor()
    is_wanted = scanned.fields["holds_records"] != 0
    if kept is not None:
        is_wanted &= kept
    group: list[int] = []
    parts: list[bytes] = []
    held = 0
    for number in np.flatnonzero(is_wanted).tolist():
        try:
            part = _plain(scanned, number, decompressor)
        except FoundDefect:
            if group:
                yield _grouped(scanned, group, parts)
            raise
        group.append(number)
        parts.append(part)
        held += len(part)
        if held >= _GROUP_BYTES:
            yield _grouped(scanned, group, parts)
            group, parts, held = [], [], 0
    if group:
        yield _grouped(scanned, group, parts)


def _grouped(scanned: ScannedBatches, numbers: list[int], parts: list[bytes]) -> PlainBatches:
    return PlainBatches(scan_batches(b"".join(parts)), scanned.fields[numbers], scanned.base_position)


def _plain(scanned: ScannedBatches, number: int, decompressor: Decompressor) -> bytes:
    start = int(scanned.starts[number])
    end = start + int(scanned.fields["length"][number]) + LENGTH_ENDS_AT
    attributes = int(scanned.fields["attributes"][number])
    codec = Codec(attributes & CODEC_MASK)
    if codec is Codec.NONE:
        return bytes(scanned.buffer[start:end])
    decompressor.clear()
    try:
        decompressor.append(codec, scanned.buffer[start + HEADER_BYTES : end])
    except CanNotDecompress as error:
        raise FoundDefect(BatchDefect(scanned.position(number), str(error))) from error
    header = bytearray(scanned.buffer[start : start + HEADER_BYTES])
    _length.pack_into(header, LENGTH_AT, HEADER_BYTES - LENGTH_ENDS_AT + decompressor.used)
    _attributes.pack_into(header, _ATTRIBUTES_AT, attributes & ~CODEC_MASK)
    return bytes(header) + decompressor.data.tobytes()
