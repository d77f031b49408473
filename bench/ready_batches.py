"""The ceiling of a Python data source: ready Arrow batches of the same columns are handed to Spark, and no more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
_ROWS_PER_BATCH = 20_000


@dataclass
class Share(InputPartition):
    """How many rows a task gives."""

    rows: int

    def __init__(self, rows: int) -> None:
        self.rows = rows


class ReadyBatches(DataSource):
    """Options: `rows` in all, `tasks` that share them, `keyBytes` and `valueBytes` of each row."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(dict(self.options), schema.fieldNames())


class ReadyReader(DataSourceReader):
    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        self._rows, self._tasks = int(options["rows"]), int(options["tasks"])
        self._key_bytes, self._value_bytes = int(options["keybytes"]), int(options["valuebytes"])
        self._columns = columns

    def partitions(self) -> list[Share]:
        share, rest = divmod(self._rows, self._tasks)
        return [Share(share + (number < rest)) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Share)
        batch = _batch(_ROWS_PER_BATCH, tuple(self._columns), self._key_bytes, self._value_bytes)
        left = partition.rows
        while left >= _ROWS_PER_BATCH:
            yield batch
            left -= _ROWS_PER_BATCH
        if left:
            yield batch.slice(0, left)


@cache
def _batch(rows: int, names: tuple[str, ...], key_bytes: int, value_bytes: int) -> Any:
    """Made once in a worker process; like the connector's worker, what was imported so far is not looked at again."""
    columns = {
        "key": pa.array([bytes(key_bytes)] * rows, pa.binary()),
        "value": pa.array([bytes(value_bytes)] * rows, pa.binary()),
        "topic": pa.array(["orders"] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * rows, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    gc.freeze()
    return pa.RecordBatch.from_pydict({name: columns[name] for name in names})
