"""One metadata partition as this replica has it: its state, how far it was applied, and its newest events.

Used from the event loop only. Where the records come from is the replica's business.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from tiergate_server.metadata.event_codec import CorruptEvent, MetadataEvent, UnknownEvent, decode_event
from tiergate_server.metadata.event_log import LogRecord
from tiergate_server.metadata.progress import PartitionProgress
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.verdict import Applied

_logger = logging.getLogger(__name__)


class Diverged(Exception):
    """The log is not the one that the snapshot was taken of."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"the log of metadata partition {partition} is not the one that its snapshot was taken of")
        self.partition = partition


@dataclass(frozen=True, slots=True)
class SnapshotProof:
    """The last record that a snapshot had applied: it must be in the log, with the same epoch of the log."""

    offset: int
    leader_epoch: int


class HostedPartition:
    def __init__(
        self,
        number: int,
        *,
        state: MetadataState,
        applied: int,
        ready_at: int,
        history_events: int,
        proof: SnapshotProof | None = None,
        skip: frozenset[int] = frozenset(),
    ) -> None:
        self.number = number
        self.state = state
        self.progress = PartitionProgress(applied=applied, ready_at=ready_at)
        self.leader_epoch = -1
        """The log's epoch of the last record applied."""
        self.history: deque[tuple[int, MetadataEvent]] = deque(maxlen=history_events)
        """The newest events that changed the state, by offset."""
        self.history_begins_after = applied
        """Every change behind this offset is in the history."""
        self.skipped_events = 0
        self._proof = proof
        self._skip = skip

    def apply(self, record: LogRecord) -> MetadataEvent | None:
        """Applies the next record; returns its event when it changed the state. Raises Diverged."""
        progress = self.progress
        if progress.corrupt_at is not None:
            return None
        if self._proof is not None:
            self._prove(record, self._proof)
            return None
        verdict = event = None
        try:
            event = decode_event(record.value)
        except UnknownEvent as reason:
            self._skipped(record, reason)
        except CorruptEvent as reason:
            if record.offset not in self._skip:
                progress.fail(record.offset)
                _logger.error(  # noqa: TRY400 (the reason says it all)
                    "metadata partition %d is unreadable from offset %d on (%s): its calls answer METADATA_CORRUPT; "
                    "to go on without this event, add %d:%d to metadata.skip",
                    *(self.number, record.offset, reason, self.number, record.offset),
                )
                return None
            self._skipped(record, reason)
        else:
            verdict = self.state.apply(event)
        self.leader_epoch = record.leader_epoch
        changed = isinstance(verdict, Applied)
        if changed and event is not None:
            self._remember(record.offset, event)
        progress.advance(record.offset, verdict)
        return event if changed else None

    def _prove(self, record: LogRecord, proof: SnapshotProof) -> None:
        """The first record is the last one that the snapshot had applied, if the log is still the same."""
        if (record.offset, record.leader_epoch) != (proof.offset, proof.leader_epoch):
            raise Diverged(self.number)
        self._proof = None
        self.leader_epoch = record.leader_epoch
        self.history_begins_after = record.offset
        self.progress.advance(record.offset, None)

    def _skipped(self, record: LogRecord, reason: Exception) -> None:
        self.skipped_events += 1
        _logger.warning(
            "skipped the event at offset %d of metadata partition %d: %s", record.offset, self.number, reason
        )

    def _remember(self, offset: int, event: MetadataEvent) -> None:
        if len(self.history) == self.history.maxlen:
            self.history_begins_after = self.history[0][0] if self.history else offset
        self.history.append((offset, event))
