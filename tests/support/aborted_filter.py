"""Leaves out aborted transactions as Kafka's consumer does, batch by batch; `spec/rsm.md` 3.4 says how.

For those who decode raw batches and know of each aborted transaction where it begins, and of its end the marker alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tiergate_client import AbortedRange
from tiergate_client.records import BatchHeader, ControlType, ScannedBatches


class AbortedFilter:
    """Follows the batches of one read, which are given once and in order."""

    def __init__(self, aborted: Iterable[AbortedRange]) -> None:
        self._to_come = sorted(aborted, key=lambda one: one.first_offset)
        self._aborted_producers: set[int] = set()

    def kept(self, scanned: ScannedBatches) -> npt.NDArray[np.bool_]:
        """For `decode_batches`, which leaves out control batches itself."""
        return np.array([self._is_kept(batch) for batch in scanned], np.bool_)

    def _is_kept(self, batch: BatchHeader) -> bool:
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            self._aborted_producers.add(self._to_come.pop(0).producer_id)
        if batch.is_control:
            if batch.control_type == ControlType.ABORT:
                self._aborted_producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborted_producers)
