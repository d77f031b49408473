"""The files that a broker copies with a segment, made from its log batch by batch; which batches is decided outside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from support.log_batches import LogBatch, transactions_of
from tiergate_client.segment_files import SegmentFile
from tiergate_server.kafka_files.indexes import AbortedTransaction, encode_offset_entry, encode_time_entry
from tiergate_server.kafka_files.producer_snapshots import ProducerState, encode_snapshot


@dataclass
class SegmentWriter:
    """Makes the log and its sparse indexes: batches are appended in chunks, and an entry is due after some bytes."""

    source: random.Random
    base_offset: int

    def files(self, batches: Sequence[LogBatch]) -> dict[SegmentFile, bytes]:
        interval = self.source.choice([0, 100, 300, 10_000])
        log, offset_index, time_index = bytearray(), b"", b""
        since_entry, latest, latest_offset, in_time_index = 0, -1, self.base_offset, -1
        remaining = list(batches)
        while remaining:
            chunk = [remaining.pop(0) for _ in range(min(self.source.randint(1, 3), len(remaining)))]
            position = len(log)
            for batch in chunk:
                log += batch.content
                if batch.max_timestamp_ms > latest:
                    latest, latest_offset = batch.max_timestamp_ms, batch.last_offset
            if since_entry > interval:
                offset_index += encode_offset_entry(
                    base_offset=self.base_offset, offset=chunk[-1].last_offset, position=position
                )
                if latest > in_time_index:
                    time_index += self._time_entry(latest, latest_offset)
                    in_time_index = latest
                since_entry = 0
            since_entry += len(log) - position
        if latest > in_time_index:
            time_index += self._time_entry(latest, latest_offset)
        return {
            SegmentFile.LOG: bytes(log),
            SegmentFile.OFFSET_INDEX: offset_index,
            SegmentFile.TIME_INDEX: time_index,
        }

    def _time_entry(self, timestamp_ms: int, offset: int) -> bytes:
        return encode_time_entry(base_offset=self.base_offset, timestamp_ms=timestamp_ms, offset=offset)


def transaction_index(log: Sequence[LogBatch], start: int) -> bytes:
    """The aborts whose markers stand from `start` on to the end of the log."""
    content = b""
    for one in transactions_of(log):
        marker_offset = one.marker_offset
        if not one.is_aborted or marker_offset is None or marker_offset < start:
            continue
        still_open = transactions_of([batch for batch in log if batch.base_offset <= marker_offset])
        firsts = [other.first_offset for other in still_open if other.marker_offset is None]
        last_stable = min(firsts, default=marker_offset + 1)
        content += AbortedTransaction(one.producer_id, one.first_offset, marker_offset, last_stable).encode()
    return content


def producer_snapshot(log: Sequence[LogBatch]) -> bytes:
    """The state at the end of the log."""
    firsts = {one.producer_id: one.first_offset for one in transactions_of(log) if one.marker_offset is None}
    last = {batch.producer_id: batch for batch in log if batch.producer_id >= 0}
    return encode_snapshot(
        [
            ProducerState(
                producer,
                0,
                batch.last_offset,
                batch.last_offset,
                batch.last_offset - batch.base_offset,
                batch.max_timestamp_ms,
                transaction_first_offset=firsts.get(producer, -1),
            )
            for producer, batch in last.items()
        ]
    )
