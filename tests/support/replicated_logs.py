"""A partition's log as its leaders write, truncate and copy it, batch by batch; random ones for property tests.

What a copy's files say is made as a broker makes it; what readers do with it is not known here.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hypothesis import strategies as st

from support.broker_files import SegmentWriter, producer_snapshot, transaction_index
from support.log_batches import Kind, LogBatch, transactions_of
from support.record_batches import MadeBatch, MadeRecord, marker
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition

PARTITION = TopicIdPartition(TopicId(b"replicated-topic"), 0, "orders")
FIRST_TIMESTAMP_MS = 1_700_000_000_000
_LOG_APPEND_TIME, _TRANSACTIONAL = 0x08, 0x10
_COMMIT, _ABORT = 1, 0


@dataclass(frozen=True)
class CopiedSegment:
    """A copy, and the log of the leader that made it, up to the end of the copy; it counts from the log start on."""

    metadata: RemoteLogSegmentMetadata
    files: Mapping[SegmentFile, bytes]
    batches: tuple[LogBatch, ...]
    leader_log: tuple[LogBatch, ...]
    leader_log_start: int

    @cached_property
    def last_epoch(self) -> int:
        return self.metadata.segment_leader_epochs.entries[-1][0]


@dataclass
class ReplicatedLog:
    """The log of whoever leads now."""

    source: random.Random
    batches: list[LogBatch] = field(default_factory=list)
    lineage: LeaderEpochs = field(default_factory=lambda: LeaderEpochs.of({0: 0}))
    log_start: int = 0
    copied: list[CopiedSegment] = field(default_factory=list)
    now_ms: int = FIRST_TIMESTAMP_MS

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    @property
    def epoch(self) -> int:
        return self.lineage.entries[-1][0]

    def append(self, kind: Kind, *, producer_id: int = -1, records: int = 1) -> None:
        base, epoch = self.end_offset, self.epoch
        self.now_ms += self.source.randint(0, 20)
        if kind in ("commit", "abort"):
            made = marker(_COMMIT if kind == "commit" else _ABORT, base_offset=base, producer_id=producer_id)
            made = made.but(base_timestamp_ms=self.now_ms, max_timestamp_ms=self.now_ms)
            rows: tuple[tuple[int, int], ...] = ((base, self.now_ms),)
        else:
            made, rows = self._data(kind, producer_id, records)
        content = bytearray(made.encode())
        struct.pack_into(">i", content, 12, epoch)
        last = base + struct.unpack_from(">i", content, 23)[0]
        self.batches.append(LogBatch(epoch, base, last, kind, producer_id, rows, made.max_timestamp_ms, bytes(content)))

    def _data(self, kind: Kind, producer_id: int, records: int) -> tuple[MadeBatch, tuple[tuple[int, int], ...]]:
        """Timestamps jump back and forth; as after compaction, offsets may be missing in the middle and at the end."""
        base = self.end_offset
        deltas = sorted(self.source.sample(range(records + self.source.randint(0, 2)), records))
        times = [self.source.randint(-40, 40) for _ in deltas]
        most = self.now_ms + max(times, default=0)
        is_append_time = self.source.random() < 0.2
        attributes = (_TRANSACTIONAL if kind == "transactional" else 0) | (_LOG_APPEND_TIME if is_append_time else 0)
        value = self.source.randbytes(self.source.randint(0, 40))
        made = MadeBatch(
            tuple(MadeRecord(delta, time, value=value) for delta, time in zip(deltas, times, strict=True)),
            base_offset=base,
            attributes=attributes,
            base_timestamp_ms=self.now_ms,
            max_timestamp_ms=most,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            last_offset_delta=max(deltas, default=0) + self.source.randint(0, 2),
        )
        rows = (
            (base + delta, most if is_append_time else self.now_ms + time)
            for delta, time in zip(deltas, times, strict=True)
        )
        return made, tuple(rows)

    def change_leader(self, *, lost_batches: int = 0, silent_epochs: int = 0) -> None:
        """The new leader lacks the last batches; leaders before it may have written nothing."""
        kept = max(0, len(self.batches) - lost_batches)
        while kept < len(self.batches) and self.batches[kept].base_offset < self.log_start:
            kept += 1  # nobody truncates below the log start
        self.batches = self.batches[:kept]
        epoch = self.epoch
        entries = [entry for entry in self.lineage.entries if entry[1] < self.end_offset]
        for _ in range(silent_epochs + 1):
            epoch += self.source.randint(1, 3)
            entries.append((epoch, self.end_offset))
        self.lineage = LeaderEpochs(tuple(entries))

    def delete_records(self, before: int) -> None:
        self.log_start = max(self.log_start, min(before, self.end_offset))
        started = [epoch for epoch, start in self.lineage.entries if start <= self.log_start]
        later = tuple(entry for entry in self.lineage.entries if entry[1] > self.log_start)
        self.lineage = LeaderEpochs(((started[-1] if started else self.epoch, self.log_start), *later))

    def copy(self, first: int, stop: int, *, with_snapshot: bool = True, says_txn_empty: bool = True) -> None:
        """Copies batches [first, stop) of the log as one segment."""
        batches, leader_log = self.batches[first:stop], self.batches[:stop]
        start = batches[0].base_offset
        end = batches[-1].last_offset
        if end < self.log_start:
            return
        files = SegmentWriter(self.source, start).files(batches)
        txn_index = transaction_index(leader_log, start)
        if txn_index or self.source.random() < 0.3:
            files[SegmentFile.TXN_INDEX] = txn_index
        if with_snapshot:
            files[SegmentFile.PRODUCER_SNAPSHOT] = producer_snapshot(leader_log)
        files[SegmentFile.LEADER_EPOCH] = self.lineage.up_to(end).to_checkpoint()
        metadata = RemoteLogSegmentMetadata(
            partition=PARTITION,
            segment_id=SegmentId(self.source.randbytes(16)),
            start_offset=start,
            end_offset=end,
            segment_leader_epochs=self.lineage.within(start, end),
            segment_size_bytes=len(files[SegmentFile.LOG]),
            max_timestamp_ms=max(batch.max_timestamp_ms for batch in batches),
            event_timestamp_ms=self.now_ms + len(self.copied),
            state=SegmentState.COPY_FINISHED,
            txn_index_empty=says_txn_empty and not txn_index,
        )
        self.copied.append(CopiedSegment(metadata, files, tuple(batches), tuple(leader_log), self.log_start))


def sources() -> st.SearchStrategy[random.Random]:
    """Seeded ones: hypothesis's own randoms lean to the simplest choice each time, and leaders then lose nothing."""
    return st.integers(0, 2**32 - 1).map(random.Random)


def random_log(source: random.Random, *, steps: int, snapshots: float = 1.0) -> ReplicatedLog:
    """Written by several leaders, some of whom lose what others wrote, and copied by each in its own segments."""
    log = ReplicatedLog(source)
    copied = 0
    for _ in range(steps):
        chance = source.random()
        producer = source.randint(1, 3)
        if chance < 0.25:
            log.append("plain", producer_id=source.choice([-1, producer]), records=source.randint(0, 4))
        elif chance < 0.55:
            log.append("transactional", producer_id=producer, records=source.randint(1, 4))
        elif chance < 0.75:
            log.append(source.choice(["commit", "abort", "abort"]), producer_id=producer)
        elif chance < 0.81:
            log.change_leader(lost_batches=source.choice([0, 1, 3, 8]), silent_epochs=source.choice([0, 0, 1]))
            copied = min(copied, len(log.batches))
            copied -= source.choice([0, 0, source.randint(0, min(3, copied))])
        elif chance < 0.83:
            log.delete_records(log.log_start + source.randint(0, 12))
        elif copied < len(log.batches):
            if source.random() < 0.4:
                for producer in {one.producer_id for one in transactions_of(log.batches) if one.marker_offset is None}:
                    log.append(source.choice(["commit", "abort"]), producer_id=producer)
            stop = source.choice([len(log.batches), source.randint(copied + 1, len(log.batches))])
            log.copy(
                copied,
                stop,
                with_snapshot=source.random() < snapshots,
                says_txn_empty=source.random() < 0.5,
            )
            copied = copied if source.random() < 0.1 else stop
    return log
