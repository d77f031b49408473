"""Writes a partition directory as a leader does: offsets, epochs, transactions, rolling. Records are given to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tiergate_client.batch_layout import TRANSACTIONAL
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import TopicId
from tiergate_client.local_log import names, partition_metadata
from tiergate_server.kafka_files.indexes import AbortedTransaction
from tiergate_server.kafka_files.producer_snapshots import ProducerState, encode_snapshot
from tiergate_server.kafka_files.record_batches import (
    ANONYMOUS,
    Batch,
    Producer,
    Record,
    encode_batch,
    encode_transaction_marker,
)
from tiergate_server.kafka_files.segment_writer import SegmentWriter

_COORDINATOR_EPOCH = 0


class PartitionWriter:
    """A partition being written, in leader epoch 0 until another begins. `close` completes its files."""

    def __init__(self, directory: Path, *, topic_id: TopicId, segment_bytes: int) -> None:
        self.next_offset = 0
        self.rolled_segment_count = 0
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._epochs = {0: 0}
        self._producers: dict[int, ProducerState] = {}
        self._segment = SegmentWriter(directory, 0)
        (directory / names.PARTITION_METADATA).write_bytes(partition_metadata.encode(topic_id))

    @property
    def written_segments(self) -> float:
        """How much is written, as a multiple of a whole segment."""
        return self.rolled_segment_count + self._segment.size_bytes / self._segment_bytes

    def begin_epoch(self, epoch: int) -> None:
        self._epochs[epoch] = self.next_offset

    def append(self, records: Sequence[Record]) -> None:
        """A batch of a producer without an id."""
        self._append(
            encode_batch(records, base_offset=self.next_offset, leader_epoch=self._leader_epoch, producer=ANONYMOUS)
        )

    def append_in_transaction(self, records: Sequence[Record], *, producer_id: int) -> None:
        """A batch of the producer's transaction, which begins with its first batch after the last marker."""
        known = self._producers.get(producer_id) or ProducerState(producer_id, 0, -1, -1, 0, -1)
        batch = encode_batch(
            records,
            base_offset=self.next_offset,
            leader_epoch=self._leader_epoch,
            producer=Producer(producer_id, known.epoch, known.last_sequence + 1),
            attributes=TRANSACTIONAL,
        )
        self._append(batch)
        begun_at = known.transaction_first_offset
        self._producers[producer_id] = replace(
            known,
            last_sequence=known.last_sequence + len(records),
            last_offset=batch.last_offset,
            offset_delta=len(records) - 1,
            timestamp_ms=batch.max_timestamp_ms,
            transaction_first_offset=batch.base_offset if begun_at < 0 else begun_at,
        )

    def end_transaction(self, producer_id: int, *, commit: bool, timestamp_ms: int) -> None:
        producer = self._producers[producer_id]
        marker = encode_transaction_marker(
            commit=commit,
            base_offset=self.next_offset,
            leader_epoch=self._leader_epoch,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=_COORDINATOR_EPOCH,
        )
        self._append(marker)
        self._producers[producer_id] = replace(
            producer, timestamp_ms=timestamp_ms, coordinator_epoch=_COORDINATOR_EPOCH, transaction_first_offset=-1
        )
        if not commit:
            first_offset = producer.transaction_first_offset
            self._segment.add_aborted_transaction(
                AbortedTransaction(producer_id, first_offset, marker.last_offset, self._last_stable_offset)
            )

    def close(self) -> None:
        """Like a broker that shuts down cleanly, which snapshots the producers once more."""
        self._segment.finish()
        self._write_snapshot()
        checkpoint = LeaderEpochs.of(self._epochs).to_checkpoint()
        (self._directory / names.LEADER_EPOCH_CHECKPOINT).write_bytes(checkpoint)

    @property
    def _leader_epoch(self) -> int:
        return max(self._epochs)

    @property
    def _last_stable_offset(self) -> int:
        open_transactions = [producer.transaction_first_offset for producer in self._producers.values()]
        return min((first for first in open_transactions if first >= 0), default=self.next_offset)

    def _append(self, batch: Batch) -> None:
        if self._segment.size_bytes and self._segment.size_bytes + len(batch.content) > self._segment_bytes:
            self._roll()
        self._segment.append(batch)
        self.next_offset = batch.last_offset + 1

    def _roll(self) -> None:
        self._segment.finish()
        self._write_snapshot()
        self._segment = SegmentWriter(self._directory, self.next_offset)
        self.rolled_segment_count += 1

    def _write_snapshot(self) -> None:
        producers = [self._producers[producer_id] for producer_id in sorted(self._producers)]
        path = self._directory / names.file_name(self.next_offset, names.PRODUCER_SNAPSHOT)
        path.write_bytes(encode_snapshot(producers))
