"""Kafka's segments as records: batches to Arrow columns, indexes to places; needs the extra `records`."""

from tiergate_client.records.batch_format import Codec, ControlType, TimestampType
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches, scan_batches
from tiergate_client.records.columns import ALL_COLUMNS, DEFAULT_COLUMNS, schema_of
from tiergate_client.records.decoding import decode_batches
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES

__all__ = [
    "ALL_COLUMNS",
    "DEFAULT_COLUMNS",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "BatchHeader",
    "Codec",
    "ControlType",
    "ScannedBatches",
    "TimestampType",
    "decode_batches",
    "scan_batches",
    "schema_of",
]
