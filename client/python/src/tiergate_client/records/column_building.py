"""Records of some batches as one Arrow record batch; which batches those are is decided in `record_decoder.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tiergate_client.records.arrow_arrays import from_numpy
from tiergate_client.records.batch_table import COUNT, IS_MAX_TIMESTAMP_OF_ALL
from tiergate_client.records.columns import schema_of
from tiergate_client.records.engines import Engine
from tiergate_client.records.header_column import headers_array
from tiergate_client.records.record_columns import Bytes, Longs, RecordColumns, Wanted


@dataclass(frozen=True, slots=True)
class Records:
    """Of some batches, whose bytes are in the data."""

    data: Bytes
    batches: Longs
    columns: RecordColumns

    def parts(self, *, most_headers: int) -> Iterator[Records]:
        """All of them as a rule, else as many as have so many headers; one record that has more is a part."""
        headers = self.columns.headers
        if headers is None or headers[1].sum() <= most_headers:
            yield self
            return
        header_ends = np.cumsum(headers[1])
        first, count = 0, len(header_ends)
        while first < count:
            before = int(header_ends[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(header_ends, before + most_headers, side="right")))
            yield self._part(first, stop)
            first = stop

    def _part(self, first: int, stop: int) -> Records:
        batches = self.batches.copy()
        borders = np.cumsum(np.append(0, batches[:, COUNT]))
        batches[:, COUNT] = np.diff(np.clip(borders, first, stop))
        return Records(self.data, batches, self.columns.part(first, stop))


class ColumnBuilder:
    """Makes the columns that were asked for, and no others."""

    def __init__(self, engine: Engine, columns: Sequence[str]) -> None:
        """Raises InvalidField for columns that are not there."""
        self._schema = schema_of(columns)
        self.wanted = Wanted(keys="key" in columns, values="value" in columns, headers="headers" in columns)
        """What has to be read of the records."""
        makers: Mapping[str, Callable[[Records], Any]] = {
            "key": lambda records: records.columns.keys,
            "value": lambda records: records.columns.values,
            "offset": lambda records: from_numpy(records.columns.offsets, pa.int64()),
            "timestamp": lambda records: from_numpy(records.columns.timestamps, pa.int64()),
            "timestamp_type": _timestamp_types,
            "headers": lambda records: headers_array(engine, records.data, records.columns),
        }
        self._makers = [makers[name] for name in columns]

    def build(self, records: Records, *, start_offset: int, stop_offset: int) -> Any:
        """A RecordBatch of the records within the offsets, which have to ascend where a bound falls between them."""
        batch = pa.RecordBatch.from_arrays([make(records) for make in self._makers], schema=self._schema)
        offsets = records.columns.offsets
        if offsets[0] >= start_offset and offsets[-1] < stop_offset:
            return batch
        first, end = np.searchsorted(offsets, (start_offset, stop_offset)).tolist()
        return batch.slice(first, end - first)


def _timestamp_types(records: Records) -> Any:
    types = records.batches[:, IS_MAX_TIMESTAMP_OF_ALL].astype(np.int32)
    return from_numpy(np.repeat(types, records.batches[:, COUNT]), pa.int32())
