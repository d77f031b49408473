"""The engine for places without numba: what is sequential is walked in Python, everything else is done by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiergate_client.records.batch_table import RECORD_COLUMNS
from tiergate_client.records.batch_walking import WalkedBatches, walk_batches
from tiergate_client.records.defects import MOST_HEADERS, RecordDefect
from tiergate_client.records.record_columns import Bytes, DefectiveBatch, Longs, RecordColumns, Wanted
from tiergate_client.records.varint_reading import INT_BITS, VarintTooLong, read_bounded_varint, read_varints

_LONG_BITS: Final = 64
_SPAN_ROWS: Final = 6
"""Start and length of the key, of the value, start and number of the headers; the length of what is null is -1."""


class NumpyEngine:
    """Implements Engine, at about a twentieth of the speed of the compiled one; holds the GIL for much of it."""

    def walk_batches(self, data: Bytes) -> WalkedBatches:
        return walk_batches(data)

    def frames(self) -> None:
        return None

    def read_records(self, data: Bytes, batches: Longs, wanted: Wanted) -> RecordColumns | DefectiveBatch:
        walk = _walk_records(data.data, batches)
        count = len(walk.starts)
        batch_of = np.repeat(np.arange(len(batches)), batches[:, 2])[:count]
        columns = _Columns(data, walk.starts, walk.ends)
        offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
        spans = np.empty((_SPAN_ROWS, count), np.int64)
        columns.read(offsets, timestamps, spans, batch_of, batches)
        failed = int(columns.defects.argmax()) if count and columns.defects.any() else None
        if failed is not None and (walk.failed_batch < 0 or batch_of[failed] <= walk.failed_batch):
            return DefectiveBatch(int(batch_of[failed]), RecordDefect(columns.first_defect(failed)))
        if walk.failed_batch >= 0:
            return DefectiveBatch(walk.failed_batch, walk.defect)
        return RecordColumns(
            offsets,
            timestamps,
            self.gather(data, spans[0], spans[1]) if wanted.keys else None,
            self.gather(data, spans[2], spans[3]) if wanted.values else None,
            spans[4:] if wanted.headers else None,
            int(walk.ends[-1]),
        )

    def index_headers(self, data: Bytes, headers: Longs, header_spans: Longs) -> None:
        view, header = data.data, 0
        with_headers = np.flatnonzero(headers[1])
        for at, count in zip(*headers[:, with_headers].tolist(), strict=True):
            found, _ = _walk_headers(view, at, len(view), count)
            header_spans[:, header : header + count] = np.array(found, np.int64).reshape(count, 4).T
            header += count

    def gather(self, data: Bytes, starts: Longs, lengths: Longs) -> Any:
        # Arrow copies faster than an index per byte: spans and the gaps between them are one array, of which every
        # other element is taken.
        edges = np.zeros(2 * len(starts) + 1, np.int64)
        edges[:-1:2] = starts
        edges[1::2] = starts + np.maximum(lengths, 0)
        edges[-1] = edges[-2] if len(starts) else 0
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
        alternating = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts), buffers, 0)
        wanted = pa.array(np.arange(0, 2 * len(starts), 2), mask=lengths < 0)
        return alternating.take(wanted).cast(pa.binary())


@dataclass(frozen=True, slots=True)
class _Walk:
    """Where records begin, behind their lengths, and end; up to the first batch whose lengths make no sense."""

    starts: Longs
    ends: Longs
    failed_batch: int = -1
    defect: RecordDefect = RecordDefect.NONE


def _walk_records(view: memoryview, batches: Longs) -> _Walk:
    starts: list[int] = []
    ends: list[int] = []
    for batch, (start, end, count, *_, has_more) in enumerate(batches[:, :RECORD_COLUMNS].tolist()):
        at = start
        for _ in range(count):
            if at < end and (byte := view[at]) < 0x80:
                length, at = (byte >> 1) ^ -(byte & 1), at + 1
            else:
                try:
                    length, at = read_bounded_varint(view, at, end)
                except VarintTooLong:
                    return _Walk(_longs(starts), _longs(ends), batch, RecordDefect.RECORD_CUT)
            if not 0 <= length <= end - at:
                return _Walk(_longs(starts), _longs(ends), batch, RecordDefect.RECORD_CUT)
            starts.append(at)
            at += length
            ends.append(at)
        if at != end and not has_more:
            return _Walk(_longs(starts), _longs(ends), batch, RecordDefect.REST)
    return _Walk(_longs(starts), _longs(ends))


def _longs(numbers: list[int]) -> Longs:
    return np.array(numbers, np.int64)


class _Columns:
    """Reads one field after another of all records at once; a record with a defect goes on as if it ended there."""

    def __init__(self, data: Bytes, starts: Longs, ends: Longs) -> None:
        self._data = data
        self._at = starts + 1  # behind the attributes, which say nothing
        self._ends = ends
        self._codes = np.zeros(len(starts), np.int8)

    @property
    def defects(self) -> npt.NDArray[np.bool_]:
        is_bad: npt.NDArray[np.bool_] = self._codes != 0
        return is_bad

    def first_defect(self, record: int) -> int:
        return int(self._codes[record])

    def read(
        self, offsets: Longs, timestamps: Longs, spans: Longs, batch_of: npt.NDArray[np.intp], batches: Longs
    ) -> None:
        of = batches[:, :RECORD_COLUMNS][batch_of]
        delta_ms = self._number(_LONG_BITS)
        timestamps[:] = np.where(of[:, 7] != 0, of[:, 6], of[:, 5] + delta_ms)
        delta = self._number(INT_BITS)
        before = np.roll(delta, 1)
        first_ones = np.flatnonzero(np.diff(batch_of, prepend=-1))
        before[first_ones] = of[first_ones, 8]
        self._refuse((delta <= before) | (delta > of[:, 4]), RecordDefect.OFFSET)
        offsets[:] = of[:, 3] + delta
        spans[0], spans[1] = self._field()
        spans[2], spans[3] = self._field()
        count = self._number(INT_BITS)
        self._refuse(count < 0, RecordDefect.HEADERS)
        self._refuse(count > MOST_HEADERS, RecordDefect.MANY_HEADERS)
        spans[4], spans[5] = self._at, count
        self._skip_headers(count)
        self._refuse(self._at != self._ends, RecordDefect.RECORD_LENGTH)

    def _number(self, bits: int) -> Longs:
        numbers, self._at, is_sound = read_varints(self._data, self._at, self._ends, bits=bits)
        self._refuse(~is_sound, RecordDefect.NUMBER)
        return numbers

    def _field(self) -> tuple[Longs, Longs]:
        lengths = self._number(INT_BITS)
        self._refuse((lengths < -1) | (lengths > self._ends - self._at), RecordDefect.FIELD_LENGTH)
        starts = self._at
        self._at = np.minimum(starts + np.maximum(lengths, 0), self._ends)
        return starts, lengths

    def _skip_headers(self, counts: Longs) -> None:
        view = self._data.data
        for record in np.flatnonzero((counts > 0) & ~self.defects).tolist():
            try:
                _, self._at[record] = _walk_headers(
                    view, int(self._at[record]), int(self._ends[record]), int(counts[record])
                )
            except VarintTooLong:
                self._codes[record] = RecordDefect.HEADERS
                return  # later ones do not matter

    def _refuse(self, is_bad: npt.NDArray[np.bool_], defect: RecordDefect) -> None:
        self._codes[is_bad & (self._codes == 0)] = defect
        if is_bad.any():
            self._at = np.where(is_bad, self._ends, self._at)


def _walk_headers(view: memoryview, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Start and length of key and value of each, one behind the other, and where they end. Raises VarintTooLong."""
    found: list[int] = []
    for _ in range(count):
        key_length, key_at = read_bounded_varint(view, at, end)
        if not 0 <= key_length <= end - key_at:
            raise VarintTooLong
        value_length, value_at = read_bounded_varint(view, key_at + key_length, end)
        if not -1 <= value_length <= end - value_at:
            raise VarintTooLong
        found += (key_at, key_length, value_at, value_length)
        at = value_at + max(value_length, 0)
    return found, at
