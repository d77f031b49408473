"""Batches of a replicated log, and the transactions that they make up, for models that know which batch is which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["plain", "transactional", "commit", "abort"]


@dataclass(frozen=True, eq=False)
class LogBatch:
    """One batch; it is the same one wherever it was replicated or copied to."""

    epoch: int
    base_offset: int
    last_offset: int
    kind: Kind
    producer_id: int
    rows: tuple[tuple[int, int], ...]
    """Offset and effective timestamp of every record, also of a marker's."""
    max_timestamp_ms: int
    content: bytes

    @property
    def is_marker(self) -> bool:
        return self.kind in ("commit", "abort")


@dataclass(frozen=True)
class Transaction:
    """Where a transaction begins, and its marker, when there is one."""

    producer_id: int
    first_offset: int
    marker_offset: int | None = None
    is_aborted: bool = False

    def holds(self, batch: LogBatch) -> bool:
        end = self.marker_offset
        is_inside = self.first_offset <= batch.base_offset and (end is None or batch.base_offset < end)
        return batch.kind == "transactional" and batch.producer_id == self.producer_id and is_inside


def transactions_of(batches: Sequence[LogBatch]) -> list[Transaction]:
    """In the order of their markers, then those that are open."""
    opened: dict[int, int] = {}
    decided = []
    for batch in batches:
        if batch.kind == "transactional":
            opened.setdefault(batch.producer_id, batch.base_offset)
        elif batch.is_marker and batch.producer_id in opened:
            first = opened.pop(batch.producer_id)
            decided.append(Transaction(batch.producer_id, first, batch.base_offset, batch.kind == "abort"))
    return decided + [Transaction(producer, first) for producer, first in opened.items()]
