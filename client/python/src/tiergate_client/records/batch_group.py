"""Batches that become one Arrow record batch; which ones is decided in `decoding.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tiergate_client.records.batch_format import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME,
    MIN_RECORD_BYTES,
    Codec,
)
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.columns import schema_of
from tiergate_client.records.decompression import CanNotDecompress, Decompressor
from tiergate_client.records.defects import REASONS, BatchDefect, FoundDefect, RecordDefect
from tiergate_client.records.engines import BATCH_COLUMNS, SPAN_ROWS, Bytes, Engine, Longs
from tiergate_client.records.header_column import headers_array


class BatchGroup:
    """Batches are added by their numbers in `scanned`; `take` decodes them all and empties the group.

    As long as no batch is compressed, records are read where they are. The first compressed one makes all of the group
    stand in the decompressor's buffer, so that there is one array to read from.
    """

    def __init__(
        self, scanned: ScannedBatches, engine: Engine, columns: Sequence[str], max_decompressed_bytes: int
    ) -> None:
        self._scanned = scanned
        self._engine = engine
        self._columns = columns
        self._schema = schema_of(columns)
        self._decompressor = Decompressor(max_bytes_per_batch=max_decompressed_bytes)
        self._content = np.frombuffer(scanned.buffer, np.uint8)
        self._starts = scanned.starts.tolist()
        self._sizes = (scanned.fields["length"] + LENGTH_ENDS_AT).tolist()
        self._codecs = (scanned.fields["attributes"] & CODEC_MASK).tolist()
        self._counts = scanned.fields["record_count"].tolist()
        self._numbers: list[int] = []
        self._bounds: list[tuple[int, int]] = []
        self._is_decompressed = False
        self.size_bytes = 0

    def add(self, number: int) -> None:
        """Raises FoundDefect; the group is then as it was."""
        start = self._starts[number] + HEADER_BYTES
        bounds = start, self._starts[number] + self._sizes[number]
        codec = self._codecs[number]
        if codec and not self._is_decompressed:
            self._copy_what_is_there()
        if self._is_decompressed:
            try:
                bounds = self._decompressor.append(Codec(codec), self._scanned.buffer[bounds[0] : bounds[1]])
            except CanNotDecompress as error:
                raise FoundDefect(BatchDefect(self._scanned.position(number), str(error))) from error
        size = bounds[1] - bounds[0]
        if self._counts[number] > size // MIN_RECORD_BYTES:
            reason = f"{self._counts[number]} records do not fit into {size} bytes"
            raise FoundDefect(BatchDefect(self._scanned.position(number), reason))
        self._numbers.append(number)
        self._bounds.append(bounds)
        self.size_bytes += size

    def _copy_what_is_there(self) -> None:
        self._decompressor.clear()
        self._bounds = [
            self._decompressor.append(Codec.NONE, self._scanned.buffer[start:end]) for start, end in self._bounds
        ]
        self._is_decompressed = True

    def take(self) -> Any:
        """The records as a RecordBatch. Raises FoundDefect, and is empty then too."""
        numbers, data = np.array(self._numbers, np.int64), self._data()
        batches = self._table(numbers)
        self._numbers, self._bounds, self.size_bytes, self._is_decompressed = [], [], 0, False
        failed, defect, decoded = self._decode(data, batches)
        if failed < 0:
            return decoded
        before = self._decode(data, batches[:failed])[2] if failed else None
        position = self._scanned.position(int(numbers[failed]))
        raise FoundDefect(BatchDefect(position, REASONS[defect]), before)

    def _data(self) -> Bytes:
        return self._decompressor.data if self._is_decompressed else self._content

    def _table(self, numbers: Longs) -> Longs:
        fields = self._scanned.fields[numbers]
        table = np.empty((len(numbers), BATCH_COLUMNS), np.int64)
        table[:, :2] = self._bounds
        table[:, 2] = fields["record_count"]
        table[:, 3] = fields["base_offset"]
        table[:, 4] = fields["last_offset_delta"]
        table[:, 5] = fields["base_timestamp_ms"]
        table[:, 6] = fields["max_timestamp_ms"]
        table[:, 7] = (fields["attributes"] & LOG_APPEND_TIME) != 0
        return table

    def _decode(self, data: Bytes, batches: Longs) -> tuple[int, RecordDefect, Any]:
        count = int(batches[:, 2].sum())
        offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
        spans = np.empty((SPAN_ROWS, count), np.int64)
        failed, defect = self._engine.index_records(data, batches, offsets, timestamps, spans)
        if failed >= 0:
            return failed, defect, None
        spans_of = {"key": spans[:2], "value": spans[2:4]}
        numbers_of = {"offset": offsets, "timestamp": timestamps}
        arrays = []
        for column in self._columns:
            if column in spans_of:
                arrays.append(self._engine.gather(data, *spans_of[column]))
            elif column in numbers_of:
                arrays.append(pa.array(numbers_of[column]))
            elif column == "timestamp_type":
                arrays.append(pa.array(np.repeat(batches[:, 7].astype(np.int32), batches[:, 2])))
            else:
                arrays.append(headers_array(self._engine, data, spans))
        return failed, defect, pa.RecordBatch.from_arrays(arrays, schema=self._schema)
