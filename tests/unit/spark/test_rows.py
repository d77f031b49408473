"""Records as Spark's rows: exactly its Arrow types, no headers where there are none, constant columns."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from support.record_batches import MadeBatch, MadeRecord
from tiergate_client.errors import InvalidField
from tiergate_client.records import decode_batches
from tiergate_spark.rows import SparkRows
from tiergate_spark.schema import columns_of, source_schema

BASE_MS = 1_700_000_000_000
RECORDS = (
    MadeRecord(0, 5, key=None, value=b"", headers=((b"a", b"1"), (b"b", None))),
    MadeRecord(1, 3, key=b"", value=None),
    MadeRecord(4, 9, key=b"k", value=b"v", headers=((b"c", b""),)),
)
BATCH = MadeBatch(RECORDS, base_offset=40).encode()


def rows_of(schema: StructType, *, start: int = 0, **options: Any) -> Any:
    rows = SparkRows(columns_of(schema), topic="orders", partition=3, **options)
    (batch,) = decode_batches(BATCH, columns=rows.decoded_columns)
    made = rows.of(batch.slice(start))
    made.validate(full=True)
    return made


@pytest.mark.parametrize("start", [0, 1, 2])
def test_all_columns_have_the_types_that_spark_checks_also_in_a_slice(start: int) -> None:
    schema = source_schema(include_headers=True)
    made = rows_of(schema, start=start)
    assert made.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    constant = {"topic": "orders", "partition": 3, "timestampType": 0}
    times = [BASE_MS + 5, BASE_MS + 3, BASE_MS + 9]
    expected: list[dict[str, Any]] = [
        {
            "key": None,
            "value": b"",
            "offset": 40,
            "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        },
        {"key": b"", "value": None, "offset": 41, "headers": None},
        {"key": b"k", "value": b"v", "offset": 44, "headers": [{"key": "c", "value": b""}]},
    ]
    assert made.drop_columns(["timestamp"]).to_pylist() == [{**row, **constant} for row in expected[start:]]
    assert made["timestamp"].cast(pa.int64()).to_pylist() == [time * 1000 for time in times[start:]]


def test_narrower_schema_decodes_no_more_than_it_names() -> None:
    schema = source_schema(include_headers=False)
    narrow = StructType([schema["offset"], schema["value"]])
    assert SparkRows(columns_of(narrow), topic="orders", partition=3).decoded_columns == ("offset", "value")
    assert rows_of(narrow).to_pylist() == [
        {"offset": 40, "value": b""},
        {"offset": 41, "value": None},
        {"offset": 44, "value": b"v"},
    ]


def test_columns_that_are_not_in_the_log_are_made_for_as_many_rows_as_there_are() -> None:
    schema = source_schema(include_headers=False)
    assert (
        rows_of(StructType([schema["partition"], schema["topic"]])).to_pylist()
        == [{"partition": 3, "topic": "orders"}] * 3
    )


def test_batches_of_several_lengths_have_the_constant_in_every_row() -> None:
    schema = StructType([source_schema(include_headers=False)["topic"]])
    rows = SparkRows(columns_of(schema), topic="orders", partition=3)
    (batch,) = decode_batches(BATCH, columns=rows.decoded_columns)
    for length in (1, 3, 2, 0):
        assert rows.of(batch.slice(0, length)).to_pylist() == [{"topic": "orders"}] * length


def test_records_before_the_least_time_are_left_out_exactly() -> None:
    schema = StructType([source_schema(include_headers=False)["offset"]])
    for least, offsets in ((0, [40, 41, 44]), (5, [40, 44]), (6, [44]), (10, [])):
        assert rows_of(schema, min_timestamp_ms=BASE_MS + least)["offset"].to_pylist() == offsets


def test_time_that_spark_can_not_hold_is_an_error_and_no_other_time() -> None:
    schema = StructType([source_schema(include_headers=False)["timestamp"]])
    rows = SparkRows(columns_of(schema), topic="orders", partition=3)
    for time in (2**62, -(2**62)):
        with pytest.raises(InvalidField, match="timestamp: a record's time is too far off for Spark"):
            rows.of(pa.record_batch({"timestamp": pa.array([time], pa.int64())}))
    latest = (2**63 - 1) // 1000
    made = rows.of(pa.record_batch({"timestamp": pa.array([latest, -1], pa.int64())}))
    assert made["timestamp"].cast(pa.int64()).to_pylist() == [latest * 1000, -1000]


def test_rows_are_made_without_pandas() -> None:
    """It would be imported anew in every worker process."""
    program = """
import sys
import pyarrow as pa
from tiergate_client.records.arrow_arrays import from_numpy
from tiergate_spark.rows import SparkRows
from tiergate_spark.schema import columns_of, source_schema
import numpy as np
rows = SparkRows(columns_of(source_schema(include_headers=False)), topic="a", partition=1, min_timestamp_ms=5)
longs = from_numpy(np.arange(9), pa.int64())
ints = from_numpy(np.zeros(9, np.int32), pa.int32())
none = pa.nulls(9, pa.binary())
batch = pa.RecordBatch.from_arrays([none, none, longs, longs, ints], names=list(rows.decoded_columns))
assert rows.of(batch).num_rows == 4
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
