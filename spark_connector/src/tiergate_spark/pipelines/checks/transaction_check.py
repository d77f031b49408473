"""Checks transaction index and producer snapshot of a segment against the transactions that its log shows.

A transaction may have begun in an earlier segment, and compaction may have taken its data: only what this segment's
batches say for certain is held against the files.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiergate_client.batch_layout import TRANSACTIONAL
from tiergate_client.records.batch_format import ControlType
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches
from tiergate_client.records.producer_snapshot import ProducerSnapshot
from tiergate_client.records.transaction_index import TransactionIndex
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.finding import Findings, Kind

_INDEX: Final = SegmentFile.TXN_INDEX.value
_SNAPSHOT: Final = SegmentFile.PRODUCER_SNAPSHOT.value


class TransactionCheck:
    """Without an index a segment has no aborted transaction; without a snapshot nothing is said about open ones."""

    def __init__(
        self,
        segment: RemoteLogSegmentMetadata,
        index: TransactionIndex,
        snapshot: ProducerSnapshot | None,
        findings: Findings,
    ) -> None:
        self._segment = segment
        self._findings = findings
        self._snapshot = snapshot
        self._aborted = {entry.last_offset: entry for entry in index.transactions}
        self._opened: dict[int, int] = {}
        """The first offset of each producer's data in this segment that no marker has followed yet."""
        self._ended: dict[int, int] = {}
        """The last marker of each producer that no data has followed."""
        if segment.txn_index_empty and index.transactions:
            self._tell_index(
                "the metadata says that no transaction was aborted, the index has "
                f"{len(index.transactions)}: readers pass it by",
                index.transactions[0].last_offset,
            )

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:
        if not follows:  # markers may stand in what can not be read
            self._opened.clear()
            self._ended.clear()
        for number in np.flatnonzero(batches.fields["attributes"] & TRANSACTIONAL).tolist():
            batch = batches[number]
            if not batch.is_control:
                if batch.record_count:
                    self._opened.setdefault(batch.producer_id, batch.base_offset)
                    self._ended.pop(batch.producer_id, None)
            else:
                self._take_marker(batch)

    def _take_marker(self, batch: BatchHeader) -> None:
        entry = self._aborted.pop(batch.base_offset, None)
        if not batch.record_count:  # compaction has emptied it: whose end it was is not known any more
            return
        first_offset = self._opened.pop(batch.producer_id, None)
        self._ended[batch.producer_id] = batch.base_offset
        if batch.control_type == ControlType.COMMIT and entry is not None:
            self._tell_index("it is told to be aborted, and its marker commits it", batch.base_offset)
        if batch.control_type != ControlType.ABORT:
            return
        producer = f"the transaction of producer {batch.producer_id} that ends here"
        if entry is None:
            if first_offset is not None:
                self._tell_index(f"{producer} was aborted, and the index does not tell", batch.base_offset)
        elif entry.producer_id != batch.producer_id:
            self._tell_index(f"{producer} is told to be of producer {entry.producer_id}", batch.base_offset)
        elif first_offset is not None and entry.first_offset > first_offset:
            self._tell_index(
                f"{producer} has data at offset {first_offset}, but is told to begin with {entry.first_offset}",
                batch.base_offset,
            )

    def finish(self, *, is_whole: bool) -> None:
        for entry in self._aborted.values():
            is_outside = not self._segment.start_offset <= entry.last_offset <= self._segment.end_offset
            if is_whole or is_outside:
                self._tell_index(
                    f"the aborted transaction of producer {entry.producer_id} has no marker here", entry.last_offset
                )
        if self._snapshot is not None:
            self._check_snapshot(self._snapshot, knows_log=is_whole)

    def _check_snapshot(self, snapshot: ProducerSnapshot, *, knows_log: bool) -> None:
        producers = {one.producer_id: one for one in snapshot.producers}
        for one in snapshot.producers:
            latest = max(one.last_offset, one.transaction_first_offset)
            if latest > self._segment.end_offset:
                self._tell_snapshot(f"producer {one.producer_id} is told to have written behind the segment", latest)
        if not knows_log:
            return
        for producer, first_offset in self._opened.items():
            state = producers.get(producer)
            if state is None or not 0 <= state.transaction_first_offset <= first_offset:
                self._tell_snapshot(
                    f"a transaction of producer {producer} is open at the end of the segment, which is not told",
                    first_offset,
                )
        for producer, marker_offset in self._ended.items():
            state = producers.get(producer)
            # One that begins behind the marker may be open: compaction may have taken its data.
            if state is not None and 0 <= state.transaction_first_offset < marker_offset:
                self._tell_snapshot(
                    f"the transaction of producer {producer} is told to be open, and ended at offset {marker_offset}",
                    state.transaction_first_offset,
                )

    def _tell_index(self, fact: str, offset: int) -> None:
        self._findings.add(Kind.TRANSACTION_INDEX, fact, file=_INDEX, offset=offset)

    def _tell_snapshot(self, fact: str, offset: int) -> None:
        self._findings.add(Kind.PRODUCER_SNAPSHOT, fact, file=_SNAPSHOT, offset=offset)
