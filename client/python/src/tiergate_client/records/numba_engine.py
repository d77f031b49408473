"""The engine that numba compiles: the loops are in `_kernels.py`, memory is allocated here."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tiergate_client.records.batch_table import TABLE_COLUMNS
from tiergate_client.records.batch_walking import WalkedBatches
from tiergate_client.records.defects import RecordDefect
from tiergate_client.records.engines import Bytes, Frames, Longs
from tiergate_client.records.kernel_loading import load_kernels
from tiergate_client.records.native_codecs import NativeCodecs

# Batches are larger as a rule. Where they are not, they are walked through twice.
_BATCH_BYTES: Final = 4096


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

    def index_records(
        self, data: Bytes, batches: Longs, offsets: Longs, timestamps: Longs, spans: Longs
    ) -> tuple[int, RecordDefect, int]:
        batch, defect, end = self._kernels.index_records(data, batches, offsets, timestamps, spans)
        return batch, RecordDefect(defect), end

    def index_headers(self, data: Bytes, spans: Longs, header_spans: Longs) -> None:
        self._kernels.index_headers(data, spans, header_spans)

    def gather(self, data: Bytes, starts: Longs, lengths: Longs) -> Any:
        count = len(starts)
        null_count = int(np.count_nonzero(lengths < 0))
        ends = np.empty(count + 1, np.int32)
        validity = np.zeros((count + 7) // 8, np.uint8)
        gathered = np.empty(int(lengths.sum()) + null_count, np.uint8)
        self._kernels.gather(data, starts, lengths, ends, validity, gathered)
        buffers = [pa.py_buffer(validity) if null_count else None, pa.py_buffer(ends), pa.py_buffer(gathered)]
        return pa.Array.from_buffers(pa.binary(), count, buffers, null_count)


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
