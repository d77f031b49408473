"""Which batches a reader of committed data is given; where aborted transactions are looked up is decided outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiergate_client.batch_layout import TRANSACTIONAL
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.transaction_index import AbortedTransaction

_Offsets: TypeAlias = npt.NDArray[np.int64]


class ReadCommitted:
    """Asked about batches of any part of the log, in any order.

    Kafka's consumer follows markers, since it is told where an aborted transaction begins only. The index says where it
    ends too, so nothing needs to be remembered from batch to batch, and bytes may be left out in between. Matched are
    producer id and offsets alone: Java's transactions end with a marker of the next producer epoch, librdkafka's with
    one of the same. The reader ends before the last stable offset itself.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Duplicates, as from indexes of overlapping segments, do no harm."""
        spans: dict[int, set[tuple[int, int]]] = {}
        for entry in aborted:
            spans.setdefault(entry.producer_id, set()).add((entry.first_offset, entry.last_offset))
        # A producer has one transaction at a time, so that both ascend.
        self._spans: dict[int, tuple[_Offsets, _Offsets]] = {
            producer: (np.array([first for first, _ in found]), np.array([last for _, last in found]))
            for producer, found in ((producer, sorted(found)) for producer, found in spans.items())
        }

    def kept(self, scanned: ScannedBatches) -> npt.NDArray[np.bool_] | None:
        """Whether each batch is no part of an aborted transaction; None if no transaction was aborted.

        Control batches are no data either way.
        """
        if not self._spans:
            return None
        kept = np.ones(len(scanned), np.bool_)
        transactional = np.flatnonzero(scanned.fields["attributes"] & TRANSACTIONAL)
        producers = scanned.fields["producer_id"][transactional]
        for producer in np.unique(producers).tolist():
            if producer in self._spans:
                firsts, lasts = self._spans[producer]
                numbers = transactional[producers == producer]
                begun = np.searchsorted(firsts, scanned.last_offsets[numbers], side="right")
                ended = np.searchsorted(lasts, scanned.fields["base_offset"][numbers], side="left")
                kept[numbers] = begun <= ended
        return kept
