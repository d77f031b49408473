"""Batches as the table that engines read; see BATCH_COLUMNS. Where their records are is told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiergate_client.batch_layout import LOG_APPEND_TIME
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.engines import BATCH_COLUMNS, Longs

START, END, COUNT, BASE_OFFSET, EXCEEDED_DELTA, HAS_MORE = 0, 1, 2, 3, 8, 9


def batch_table(batches: ScannedBatches, bounds: Longs) -> Longs:
    """A row for each batch; `bounds` are start and end of their records in the data."""
    fields = batches.fields
    table = np.empty((len(batches), BATCH_COLUMNS), np.int64)
    table[:, :2] = bounds
    table[:, 2] = fields["record_count"]
    table[:, 3] = fields["base_offset"]
    table[:, 4] = fields["last_offset_delta"]
    table[:, 5] = fields["base_timestamp_ms"]
    table[:, 6] = fields["max_timestamp_ms"]
    table[:, 7] = (fields["attributes"] & LOG_APPEND_TIME) != 0
    table[:, 8] = -1
    table[:, 9] = 0
    return table


def record_steps(row: Longs, *, step_bytes: int) -> Iterator[Longs]:
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
