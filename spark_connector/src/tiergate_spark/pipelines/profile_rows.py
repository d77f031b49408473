"""What a profile needs to know of each record, as Arrow rows; made on executors, added up by Spark.

A batch is stored and compressed as a whole, and its records may be of several hours: each record carries an even share
of its batch, so that sums over any group of records are right, and over all of them exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiergate_client.errors import SegmentNotFound
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_format import Codec
from tiergate_client.records.defects import BatchDefect, FoundDefect
from tiergate_client.records.header_scan import named_defects, scan_headers
from tiergate_client.records.read_committed import ReadCommitted
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.record_decoder import RecordDecoder
from tiergate_client.records.split_reading import OnGone
from tiergate_spark.pipelines.hours import END_OF_CALENDAR_MS, HOUR_MS
from tiergate_spark.pipelines.plain_batches import PlainBatches, plain_batches

ROWS_SCHEMA: Final = (
    "topic STRING, hour_ms BIGINT, codec STRING, key BINARY, value_bytes INT, stored_bytes DOUBLE, plain_bytes DOUBLE, "
    "batches DOUBLE"
)
"""The same as `_ARROW_SCHEMA`, in Spark's words. Null keys and values have no key and no size."""

_ARROW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("hour_ms", pa.int64()),
        ("codec", pa.string()),
        ("key", pa.binary()),
        ("value_bytes", pa.int32()),
        ("stored_bytes", pa.float64()),
        ("plain_bytes", pa.float64()),
        ("batches", pa.float64()),
    ]
)
_COLUMNS: Final = ("offset", "timestamp", "key", "value")
_CODEC_NAMES: Final = pa.array([codec.name.lower() for codec in Codec])


def profile_rows(
    split: ReadSplit,
    storage: RemoteStorage,
    *,
    min_timestamp_ms: int | None = None,
    on_gone: OnGone | None = None,
) -> Iterator[Any]:
    """Of every record of the split that is not older, as `pyarrow.RecordBatch`es.

    Raises CorruptBatch, and takes `on_gone`, as `read_split` does.
    """
    decoder = RecordDecoder(_COLUMNS, check_crc=False)
    committed = ReadCommitted(split.aborted)
    for wanted in split.ranges:
        try:
            with named_defects(wanted):
                for records, plain in _decoded(wanted, storage, committed, decoder):
                    rows = _rows(records, plain, split.partition.topic)
                    if min_timestamp_ms is not None:
                        rows = rows.filter(pc.greater_equal(records["timestamp"], min_timestamp_ms))
                    yield rows
        except SegmentNotFound as error:
            if on_gone is None:
                raise
            on_gone(wanted, error)


def _decoded(
    wanted: SegmentRange, storage: RemoteStorage, committed: ReadCommitted, decoder: RecordDecoder
) -> Iterator[tuple[Any, PlainBatches]]:
    """Checksums are of the bytes as they are stored: the scan has checked them."""
    for scanned in scan_headers(wanted, storage):
        for plain in plain_batches(scanned, kept=committed.kept(scanned)):
            try:
                for records in decoder.decode(
                    plain.batches, start_offset=wanted.start_offset, stop_offset=wanted.stop_offset
                ):
                    yield records, plain
            except FoundDefect as found:
                stored_at = plain.stored_position(found.defect.position)
                raise FoundDefect(BatchDefect(stored_at, found.defect.reason)) from found


def _rows(records: Any, plain: PlainBatches, topic: str) -> Any:
    fields = plain.batches.fields
    offsets = records["offset"].to_numpy()
    numbers = np.searchsorted(fields["base_offset"].astype(np.int64), offsets, side="right") - 1
    counts = fields["record_count"].astype(np.float64)
    times = records["timestamp"].to_numpy()
    hours = times // HOUR_MS * HOUR_MS
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(topic), len(offsets)),
            pa.array(hours, mask=(times < 0) | (times >= END_OF_CALENDAR_MS)),
            _CODEC_NAMES.take(pa.array(plain.codecs[numbers])),
            records["key"],
            pc.binary_length(records["value"]),
            pa.array((plain.stored_bytes / counts)[numbers]),
            pa.array((plain.plain_bytes / counts)[numbers]),
            pa.array((1.0 / counts)[numbers]),
        ],
        schema=_ARROW_SCHEMA,
    )
