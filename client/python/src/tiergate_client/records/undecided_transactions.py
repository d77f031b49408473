"""Transactions whose end may stand in a hole of the history, so that nobody can tell whether they were committed.

Holes are rare, and without one nothing is fetched here. Which holes are errors is decided in `read_bounds.py`.
"""

from __future__ import annotations

from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import PartitionHistory
from tiergate_client.records.open_transactions import open_transactions
from tiergate_client.records.read_bounds import LOSS_IS_ACCEPTED_BY
from tiergate_client.records.transaction_index import AbortedTransaction


def undecided_transactions(
    history: PartitionHistory,
    storage: RemoteStorage,
    *,
    start_offset: int,
    stop_offset: int,
    fail_on_data_loss: bool,
) -> tuple[AbortedTransaction, ...]:
    """Those of [start_offset, stop_offset), as if they had been aborted at the hole, which may lie behind the range.

    Raises OffsetOutOfRange when there are any, unless data loss is accepted.
    """
    found = []
    for hole_start, hole_stop in history.holes(start_offset, history.stop_offset):
        before = tuple(history.within(history.start_offset, hole_start))
        opened = open_transactions(PartitionHistory(history.partition, history.lineage, before), storage)
        undecided = {producer: first for producer, first in opened.items() if first < stop_offset}
        if undecided and fail_on_data_loss:
            producers = ", ".join(map(str, sorted(undecided)))
            raise OffsetOutOfRange(
                f"{history.partition} has no finished segment that holds the offsets {hole_start} to {hole_stop - 1}, "
                f"where transactions of the producers {producers} may end: restore it, read uncommitted data, or "
                f"accept the loss of data ({LOSS_IS_ACCEPTED_BY})",
                details={
                    "earliest": str(history.start_offset),
                    "latest": str(history.stop_offset),
                    "missing": f"{hole_start}-{hole_stop - 1}",
                },
            )
        found += [AbortedTransaction(producer, first, hole_start - 1, first) for producer, first in undecided.items()]
    return tuple(found)
