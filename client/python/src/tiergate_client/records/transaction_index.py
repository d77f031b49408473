"""A segment's transaction index: the aborted transactions whose abort markers stand in the segment.

    index = { version[i16]=0 producer-id[i64] first-offset[i64] last-offset[i64] last-stable-offset[i64] }

Big-endian; ascending by last offset, which is that of the marker. The first offset may lie in an earlier segment, so
the transactions of a segment's data may stand in the indexes of later ones. Finding those is not done here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from tiergate_client.records.index_errors import corrupt_index, require_whole_entries

_ENTRY: Final = struct.Struct(">hqqqq")
# Kafka looks at the first byte of the version alone.
_FIRST_BYTE_OF_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """All of the producer's transactional batches from its first offset to its last were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class CollectedAborts:
    """What one index says about a range of offsets."""

    transactions: tuple[AbortedTransaction, ...]
    is_complete: bool
    """Whether every transaction that begins in the range is decided: later indexes have nothing to add."""


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """The entries by ascending last offset."""

    transactions: tuple[AbortedTransaction, ...]

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Raises StoredDataCorrupt. A segment without an index is one with an empty index."""
        require_whole_entries("transaction index", content, _ENTRY.size)
        transactions = []
        previous = -1
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            if version >> 8 != _FIRST_BYTE_OF_VERSION:
                raise corrupt_index("transaction index", f"an entry has version {version}, and only 0 is known")
            if entry.last_offset <= previous or entry.first_offset > entry.last_offset:
                raise corrupt_index(
                    "transaction index", f"the entry that ends with {entry.last_offset} is out of order"
                )
            previous = entry.last_offset
            transactions.append(entry)
        return cls(tuple(transactions))

    def collect(self, *, first_offset: int, upper_bound_offset: int) -> CollectedAborts:
        """The transactions that touch the offsets from first_offset on and below the upper bound."""
        found = []
        for entry in self.transactions:
            if entry.last_offset >= first_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return CollectedAborts(tuple(found), is_complete=True)
        return CollectedAborts(tuple(found), is_complete=False)
