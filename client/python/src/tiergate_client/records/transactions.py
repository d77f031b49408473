"""What a reader of committed data needs to know of a history: aborted transactions, and where decided data ends.

An abort stands in the index of the segment that holds its marker, which may come long after the data. Leaving the data
out is done by `read_committed.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_client.records.open_transactions import open_transactions
from tiergate_client.records.segment_indexes import parsed_if_there
from tiergate_client.records.transaction_index import AbortedTransaction, TransactionIndex
from tiergate_client.segment_files import IndexQuestion, SegmentFile

_ASKED_AT_ONCE: Final = 64


def aborted_transactions(
    history: PartitionHistory, storage: RemoteStorage, *, start_offset: int, stop_offset: int
) -> tuple[AbortedTransaction, ...]:
    """Those that touch [start_offset, stop_offset), ascending by their last offset, each once.

    Later segments are asked too, until one says that every transaction of the range is decided. A segment that says
    that it has none is not asked, and one without an index has none; any other error is raised: aborted data would be
    taken for committed.
    """
    found: list[AbortedTransaction] = []
    if start_offset < stop_offset:
        for piece, index in _transaction_indexes(history, storage, start_offset):
            collected = _of_this_history(index, piece).collect(
                first_offset=start_offset, upper_bound_offset=stop_offset
            )
            found += collected.transactions
            if collected.is_complete:
                break
    return tuple(found)


def last_stable_offset(history: PartitionHistory, storage: RemoteStorage) -> int:
    """Below it every transaction is decided, as far as the tier goes: the markers of others may follow on the brokers.

    It costs one index, unless the last segment was stored without a producer snapshot; see `open_transactions.py`.
    """
    first_open = min(open_transactions(history, storage).values(), default=history.stop_offset)
    return max(history.start_offset, first_open)


def _transaction_indexes(
    history: PartitionHistory, storage: RemoteStorage, start_offset: int
) -> Iterator[tuple[HistoryPiece, TransactionIndex]]:
    """Of the pieces from the offset on, in order; few at first, since the first ones often are enough."""
    remaining = (
        piece for piece in history.pieces if piece.stop_offset > start_offset and not piece.segment.txn_index_empty
    )
    at_once = 4
    while pieces := list(islice(remaining, at_once)):
        answers = storage.fetch_indexes([IndexQuestion(piece.segment, SegmentFile.TXN_INDEX) for piece in pieces])
        for piece, answer in zip(pieces, answers, strict=True):
            index = parsed_if_there(piece.segment, SegmentFile.TXN_INDEX, answer, TransactionIndex.parse)
            if index is not None:
                yield piece, index
        at_once = min(2 * at_once, _ASKED_AT_ONCE)


def _of_this_history(index: TransactionIndex, piece: HistoryPiece) -> TransactionIndex:
    """Without entries whose markers stand where the segment is not read: another leader's, or told by a neighbour."""
    return TransactionIndex(
        tuple(entry for entry in index.transactions if piece.start_offset <= entry.last_offset < piece.stop_offset)
    )
