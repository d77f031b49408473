"""Headers of batches as a table of integers, a row for each: what engines read, and everybody else by name.

Engines know the columns by their numbers, which are therefore fixed (see `_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tiergate_client.batch_layout import CONTROL, HEADER_BYTES, LENGTH_ENDS_AT, LOG_APPEND_TIME
from tiergate_client.records.batch_format import HEADER_DTYPE

# What is needed to read the records, then the rest.
_RECORD_FIELDS: Final = (
    "records_start",
    "records_end",
    "record_count",
    "base_offset",
    "last_offset_delta",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "is_max_timestamp_of_all",
    "exceeded_offset_delta",
    "has_more",
)
"""Start and end are those in the data that is read from. The offset delta of the first record exceeds the one that is
given: -1, but for a batch that is read in steps; it then has more records than are counted, too."""
_HEADER_FIELDS: Final = (
    "start",
    "length",
    "leader_epoch",
    "crc32c",
    "attributes",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_offset",
    "holds_records",
)
"""The start is that of the header. Batches that hold records are neither empty nor control batches."""

TABLE_DTYPE: Final = np.dtype([(name, np.int64) for name in (*_RECORD_FIELDS, *_HEADER_FIELDS)])
RECORD_COLUMNS: Final = len(_RECORD_FIELDS)
TABLE_COLUMNS: Final = RECORD_COLUMNS + len(_HEADER_FIELDS)


def column(name: str) -> int:
    return (*_RECORD_FIELDS, *_HEADER_FIELDS).index(name)


START, END, COUNT, BASE_OFFSET = map(column, ("records_start", "records_end", "record_count", "base_offset"))
IS_MAX_TIMESTAMP_OF_ALL, EXCEEDED_DELTA, HAS_MORE = map(
    column, ("is_max_timestamp_of_all", "exceeded_offset_delta", "has_more")
)
HEADER_START, CRC32C, ATTRIBUTES, LAST_OFFSET, HOLDS_RECORDS = map(
    column, ("start", "crc32c", "attributes", "last_offset", "holds_records")
)


def table_of(starts: npt.NDArray[np.int64], headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """From the bytes of headers, which make sense, and where they begin."""
    fields = headers.view(HEADER_DTYPE)[:, 0]
    table = np.empty((len(starts), TABLE_COLUMNS), np.int64)
    named = by_name(table)
    for name in HEADER_DTYPE.names or ():
        if name != "magic":
            named[name] = fields[name]
    attributes = named["attributes"]
    named["start"] = starts
    named["records_start"] = starts + HEADER_BYTES
    named["records_end"] = starts + named["length"] + LENGTH_ENDS_AT
    named["is_max_timestamp_of_all"] = attributes & LOG_APPEND_TIME != 0
    named["exceeded_offset_delta"] = -1
    named["has_more"] = 0
    named["last_offset"] = named["base_offset"] + named["last_offset_delta"]
    named["holds_records"] = (named["record_count"] > 0) & (attributes & CONTROL == 0)
    return table


def by_name(table: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The same memory, with fields as TABLE_DTYPE."""
    return table.view(TABLE_DTYPE)[:, 0]


def record_steps(row: npt.NDArray[np.int64], *, step_bytes: int) -> Iterator[npt.NDArray[np.int64]]:
    """One batch as several of about so many bytes each, which count on from where the one before is set to end.

    The caller writes START and EXCEEDED_DELTA of each but the first.
    """
    count = int(row[COUNT])
    records = max(1, count * step_bytes // int(row[END] - row[START]))
    for begin in range(0, count, records):
        step = row.copy()
        step[COUNT] = min(records, count - begin)
        step[HAS_MORE] = begin + records < count
        yield step
