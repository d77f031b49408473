"""Kafka's segments as records: batches to Arrow columns, indexes to places; needs the extra `records`."""

from tiergate_client.records import _extra  # noqa: F401 - fails first where the extra is missing
from tiergate_client.records.batch_format import Codec, ControlType, TimestampType
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches, scan_batches
from tiergate_client.records.columns import ALL_COLUMNS, DEFAULT_COLUMNS, schema_of
from tiergate_client.records.decoding import decode_batches
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.producer_snapshot import ProducerSnapshot, ProducerState
from tiergate_client.records.read_committed import ReadCommitted
from tiergate_client.records.time_index import TimeIndex
from tiergate_client.records.transaction_index import AbortedTransaction, CollectedAborts, TransactionIndex

__all__ = [
    "ALL_COLUMNS",
    "DEFAULT_COLUMNS",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "AbortedTransaction",
    "BatchHeader",
    "Codec",
    "CollectedAborts",
    "ControlType",
    "OffsetIndex",
    "ProducerSnapshot",
    "ProducerState",
    "ReadCommitted",
    "ScannedBatches",
    "TimeIndex",
    "TimestampType",
    "TransactionIndex",
    "decode_batches",
    "scan_batches",
    "schema_of",
]
