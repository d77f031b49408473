"""Writes one segment as a broker does: the log, and sparse indexes of it; when to roll is not decided here."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from tiergate_client.local_log import names
from tiergate_client.local_log.log_scan import NO_TIMESTAMP_MS
from tiergate_server.kafka_files.indexes import AbortedTransaction, encode_offset_entry, encode_time_entry
from tiergate_server.kafka_files.record_batches import Batch

INDEX_INTERVAL_BYTES = 4096
"""Kafka's default of `index.interval.bytes`."""


class SegmentWriter:
    """A segment being written. `finish` completes its files."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self._directory = directory
        self._log: BinaryIO = self._path(names.LOG).open("xb")
        self._offset_index = bytearray()
        self._time_index = bytearray()
        self._txn_index = bytearray()
        self._bytes_since_entry = 0
        self._largest_timestamp_ms = NO_TIMESTAMP_MS
        self._offset_of_largest = base_offset
        self._indexed_timestamp_ms = NO_TIMESTAMP_MS

    def append(self, batch: Batch) -> None:
        if batch.max_timestamp_ms > self._largest_timestamp_ms:
            self._largest_timestamp_ms = batch.max_timestamp_ms
            self._offset_of_largest = batch.last_offset
        if self._bytes_since_entry > INDEX_INTERVAL_BYTES:
            self._offset_index += encode_offset_entry(
                base_offset=self.base_offset, offset=batch.last_offset, position=self.size_bytes
            )
            self._index_largest_timestamp()
            self._bytes_since_entry = 0
        self._log.write(batch.content)
        self.size_bytes += len(batch.content)
        self._bytes_since_entry += len(batch.content)

    def add_aborted_transaction(self, aborted: AbortedTransaction) -> None:
        self._txn_index += aborted.encode()

    def finish(self) -> None:
        """Like a broker that rolls: the time index ends with the largest timestamp; no aborts, no transaction index."""
        self._log.close()
        self._index_largest_timestamp()
        self._path(names.OFFSET_INDEX).write_bytes(self._offset_index)
        self._path(names.TIME_INDEX).write_bytes(self._time_index)
        if self._txn_index:
            self._path(names.TXN_INDEX).write_bytes(self._txn_index)

    def _index_largest_timestamp(self) -> None:
        if self._largest_timestamp_ms > self._indexed_timestamp_ms:
            self._time_index += encode_time_entry(
                base_offset=self.base_offset,
                timestamp_ms=self._largest_timestamp_ms,
                offset=self._offset_of_largest,
            )
            self._indexed_timestamp_ms = self._largest_timestamp_ms

    def _path(self, suffix: str) -> Path:
        return self._directory / names.file_name(self.base_offset, suffix)
