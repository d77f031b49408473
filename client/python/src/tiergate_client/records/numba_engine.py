"""The engine that numba compiles: the loops are in `_kernels.py`, memory is allocated here."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tiergate_client.records.batch_table import COUNT, END, START, TABLE_COLUMNS
from tiergate_client.records.batch_walking import WalkedBatches
from tiergate_client.records.defects import RecordDefect
from tiergate_client.records.engines import Frames
from tiergate_client.records.kernel_loading import load_kernels
from tiergate_client.records.native_codecs import NativeCodecs
from tiergate_client.records.record_columns import Bytes, DefectiveBatch, Longs, RecordColumns, Wanted

# Batches are larger as a rule. Where they are not, they are walked through twice.
_BATCH_BYTES: Final = 4096
_NO_MEMORY: Final = (np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint8))
"""By which the loops know that a column is not wanted."""


class NumbaEngine:
    """Implements Engine; the GIL is released while records are walked and copied."""

    def __init__(self) -> None:
        self._kernels = load_kernels()

    def walk_batches(self, data: Bytes) -> WalkedBatches:
        table = np.empty((len(data) // _BATCH_BYTES + 1, TABLE_COLUMNS), np.int64)
        count, end, is_sound = self._kernels.walk_batches(data, table)
        if count > len(table):
            table = np.empty((count, TABLE_COLUMNS), np.int64)
            found, end, is_sound = self._kernels.walk_batches(data, table)
            if found != count:
                raise RuntimeError("bytes were changed while they were read: give the decoder memory of its own")
        return WalkedBatches(table[:count], end, is_sound)

    def frames(self) -> Frames:
        return _NativeFrames(self._kernels)

    def read_records(self, data: Bytes, batches: Longs, wanted: Wanted) -> RecordColumns | DefectiveBatch:
        starts, ends, count = batches[:, [START, END, COUNT]].sum(axis=0).tolist()
        most_bytes = ends - starts + self._kernels.STEP_BYTES
        offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
        keys = _BinaryColumn(count, most_bytes) if wanted.keys else None
        values = _BinaryColumn(count, most_bytes) if wanted.values else None
        headers = np.empty((2, count if wanted.headers else 0), np.int64)
        totals = np.empty(4, np.int64)
        failed, defect, end = self._kernels.read_records(
            data, batches, offsets, timestamps, *_memory_of(keys), *_memory_of(values), headers, totals
        )
        if failed >= 0:
            return DefectiveBatch(failed, RecordDefect(defect))
        key_bytes, null_keys, value_bytes, null_values = totals.tolist()
        return RecordColumns(
            offsets,
            timestamps,
            None if keys is None else keys.array(key_bytes, null_keys),
            None if values is None else values.array(value_bytes, null_values),
            headers if wanted.headers else None,
            end,
        )

    def index_headers(self, data: Bytes, headers: Longs, header_spans: Longs) -> None:
        self._kernels.index_headers(data, headers, header_spans)

    def gather(self, data: Bytes, starts: Longs, lengths: Longs) -> Any:
        null_count = int(np.count_nonzero(lengths < 0))
        size = int(lengths.sum()) + null_count
        column = _BinaryColumn(len(starts), size)
        self._kernels.gather(data, starts, lengths, *column.memory)
        return column.array(size, null_count)


class _BinaryColumn:
    """The memory of a column of type binary, which the loops fill."""

    def __init__(self, count: int, most_bytes: int) -> None:
        self._ends = np.empty(count + 1, np.int32)
        self._validity = np.full((count + 7) // 8, 0xFF, np.uint8)
        # Of Arrow's pool, which keeps what it once got: an array of numpy is mapped anew for each group.
        self._content = pa.allocate_buffer(most_bytes, resizable=True)

    @property
    def memory(self) -> tuple[Any, Any, Any]:
        """To be given up before `array` is called, which may move the content."""
        return self._ends, self._validity, np.frombuffer(self._content, np.uint8)

    def array(self, size_bytes: int, null_count: int) -> Any:
        """What was not needed is given back."""
        self._content.resize(size_bytes, shrink_to_fit=True)
        validity = pa.py_buffer(self._validity) if null_count else None
        buffers = [validity, pa.py_buffer(self._ends), self._content]
        return pa.Array.from_buffers(pa.binary(), len(self._ends) - 1, buffers, null_count)


def _memory_of(column: _BinaryColumn | None) -> tuple[Any, Any, Any]:
    return _NO_MEMORY if column is None else column.memory


class _NativeFrames:
    """Implements Frames."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels
        self._native = NativeCodecs()
        self.codecs = self._native.codecs

    def decompress(
        self, data: Bytes, batches: Longs, out: Bytes, *, used: int, enough: int, most: int, spans: Longs
    ) -> tuple[int, int]:
        native = self._native
        count, end = self._kernels.decompress(
            data,
            batches,
            native.lz4,
            native.zstd,
            native.zstd_frame_size,
            native.zstd_state,
            out,
            used,
            enough,
            most,
            spans,
        )
        return count, end
