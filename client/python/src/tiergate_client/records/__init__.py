"""Kafka's segments as records: batches to Arrow columns, indexes to places; needs the extra `records`."""

from tiergate_client.records import _extra  # noqa: F401 - fails first where the extra is missing
from tiergate_client.records.batch_format import Codec, ControlType, TimestampType
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches, scan_batches
from tiergate_client.records.columns import ALL_COLUMNS, DEFAULT_COLUMNS, schema_of
from tiergate_client.records.decoding import decode_batches
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tiergate_client.records.history import HistoryPiece, PartitionHistory, load_history
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.producer_snapshot import ProducerSnapshot, ProducerState
from tiergate_client.records.read_committed import ReadCommitted
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_history, plan_read
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.split_reading import raw_batches, read_split
from tiergate_client.records.time_index import TimeIndex
from tiergate_client.records.time_lookup import TimestampedOffset, find_offset_by_time
from tiergate_client.records.transaction_index import AbortedTransaction, CollectedAborts, TransactionIndex
from tiergate_client.records.transactions import aborted_transactions, last_stable_offset

__all__ = [
    "ALL_COLUMNS",
    "DEFAULT_COLUMNS",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "AbortedTransaction",
    "BatchHeader",
    "Codec",
    "CollectedAborts",
    "ControlType",
    "HistoryPiece",
    "IsolationLevel",
    "OffsetIndex",
    "PartitionHistory",
    "PartitionPlan",
    "ProducerSnapshot",
    "ProducerState",
    "ReadCommitted",
    "ReadSplit",
    "ScannedBatches",
    "SegmentRange",
    "TimeIndex",
    "TimestampType",
    "TimestampedOffset",
    "TransactionIndex",
    "aborted_transactions",
    "decode_batches",
    "find_offset_by_time",
    "last_stable_offset",
    "load_history",
    "plan_history",
    "plan_read",
    "raw_batches",
    "read_split",
    "scan_batches",
    "schema_of",
]
