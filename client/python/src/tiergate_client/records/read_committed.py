"""Which batches a reader of committed data is given; where aborted transactions are looked up is decided outside."""

from __future__ import annotations

from collections.abc import Iterable

from tiergate_client.records.batch_format import ControlType
from tiergate_client.records.batch_headers import BatchHeader
from tiergate_client.records.transaction_index import AbortedTransaction

_NO_PRODUCER = -1


class ReadCommitted:
    """Asked about every batch of the range in the order of the log, over as many buffers and segments as there are.

    Matched are producer id and order alone: Java's transactions end with a marker of the next producer epoch,
    librdkafka's with one of the same. The reader ends before the last stable offset itself.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Duplicates, as from indexes of overlapping segments, do no harm."""
        unique = {(entry.first_offset, entry.producer_id) for entry in aborted}
        self._coming = sorted(unique, reverse=True)
        self._aborted_producers: set[int] = set()

    def keeps(self, batch: BatchHeader) -> bool:
        """Whether the batch holds committed data. Its offsets are passed either way: a read goes on behind it."""
        while self._coming and self._coming[-1][0] <= batch.last_offset:
            self._aborted_producers.add(self._coming.pop()[1])
        if batch.is_control:
            if batch.producer_id != _NO_PRODUCER and batch.control_type == ControlType.ABORT:
                self._aborted_producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborted_producers)
