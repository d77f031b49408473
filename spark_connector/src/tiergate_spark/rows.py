"""Decoded records as Spark wants them: the columns of the schema, in its order, with exactly its Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tiergate_client.errors import InvalidField
from tiergate_client.records.arrow_arrays import booleans, from_numpy, longs, repeated_text
from tiergate_spark.schema import Column

_HEADER_FIELDS: Final = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
_HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct(_HEADER_FIELDS)))

ARROW_TYPES: Final[Mapping[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS_TYPE,
}
_DECODED: Final[Mapping[str, str]] = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}
_MICROSECONDS_PER_MILLISECOND: Final = 1000
_MAX_TIME_MS: Final = (2**63 - 1) // _MICROSECONDS_PER_MILLISECOND


class SparkRows:
    """Makes the rows of one partition of a topic."""

    def __init__(
        self, columns: Sequence[Column], *, topic: str, partition: int, min_timestamp_ms: int | None = None
    ) -> None:
        """Older records than `min_timestamp_ms` are left out."""
        self._columns = columns
        self._min_timestamp_ms = min_timestamp_ms
        self._schema = pa.schema(
            [pa.field(column.name, ARROW_TYPES[column.content], nullable=column.is_nullable) for column in columns]
        )
        self._fillers: Mapping[str, Callable[[Any], Any]] = {
            "topic": _Constant(lambda count: repeated_text(topic, count)).of_length_of,
            "partition": _Constant(
                lambda count: from_numpy(np.full(count, partition, np.int32), pa.int32())
            ).of_length_of,
            "timestamp": lambda batch: _timestamps(batch.column("timestamp")),
            "headers": lambda batch: _headers(batch.column("headers")),
        }

    @property
    def decoded_columns(self) -> tuple[str, ...]:
        """What has to be decoded."""
        wanted = [_DECODED[column.content] for column in self._columns if column.content in _DECODED]
        if self._min_timestamp_ms is not None and "timestamp" not in wanted:
            wanted.append("timestamp")
        return tuple(wanted) or ("offset",)

    def of(self, batch: Any) -> Any:
        """The rows of a `pyarrow.RecordBatch` of those columns."""
        if self._min_timestamp_ms is not None:
            batch = _not_before(batch, self._min_timestamp_ms)
        return pa.RecordBatch.from_arrays(
            [self._filled(column, batch) for column in self._columns], schema=self._schema
        )

    def _filled(self, column: Column, batch: Any) -> Any:
        fill = self._fillers.get(column.content)
        return batch.column(_DECODED[column.content]) if fill is None else fill(batch)


class _Constant:
    """The same value in every row: made once for the longest batch, cut for the others."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._made = make(0)

    def of_length_of(self, batch: Any) -> Any:
        if len(self._made) < batch.num_rows:
            self._made = self._make(batch.num_rows)
        return self._made.slice(0, batch.num_rows)


def _not_before(batch: Any, min_timestamp_ms: int) -> Any:
    is_wanted = longs(batch.column("timestamp")) >= min_timestamp_ms
    return batch if is_wanted.all() else batch.filter(booleans(is_wanted))


def _timestamps(milliseconds: Any) -> Any:
    times = longs(milliseconds)
    if len(times) and (times.max() > _MAX_TIME_MS or times.min() < -_MAX_TIME_MS):
        raise InvalidField.of("timestamp", "a record's time is too far off for Spark; read without this column")
    return from_numpy(times * _MICROSECONDS_PER_MILLISECOND, ARROW_TYPES["timestamp"])


def _headers(lists: Any) -> Any:
    """Spark's Kafka source has no array, rather than an empty one, where a record has no headers."""
    ends = np.frombuffer(lists.buffers()[1], np.int32, count=len(lists) + 1, offset=4 * lists.offset)
    pairs = lists.values
    values = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=_HEADER_FIELDS)
    is_missing = booleans(ends[1:] == ends[:-1])
    return pa.ListArray.from_arrays(from_numpy(ends, pa.int32()), values, type=_HEADERS_TYPE, mask=is_missing)
