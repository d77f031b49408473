"""What a verification tells: findings, by kind and severity. Finding them is done by the checks."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import Final

MANIFEST: Final = "manifest"
"""Where a finding is about the manifest, which is none of the segment's files."""

_MOST_PER_KIND: Final = 20


class Severity(enum.StrEnum):
    """Damage makes readers fail or see wrong records; a warning may; a note only explains."""

    DAMAGE = "damage"
    WARNING = "warning"
    NOTE = "note"


class Kind(enum.StrEnum):
    """What is wrong; programs branch on it."""

    MANIFEST_MISSING = "manifest_missing"
    MANIFEST_DIFFERS = "manifest_differs"
    STORED_DATA = "stored_data"
    BATCH_CHECKSUM = "batch_checksum"
    BATCH_UNREADABLE = "batch_unreadable"
    OFFSET_ORDER = "offset_order"
    OFFSET_RANGE = "offset_range"
    OFFSET_GAP = "offset_gap"
    LEADER_EPOCH = "leader_epoch"
    MAX_TIMESTAMP = "max_timestamp"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TRANSACTION_INDEX = "transaction_index"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCH_INDEX = "leader_epoch_index"
    MISSING_OFFSETS = "missing_offsets"
    OVERLAP = "overlap"
    OUTSIDE_LINEAGE = "outside_lineage"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where, as far as that can be told."""

    kind: Kind
    severity: Severity
    message: str
    file: str | None = None
    position: int | None = None
    offset: int | None = None


class Findings:
    """Those of one segment. A segment can be wrong a million times over: the first ones of each kind are kept."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Kind, str | None, Severity]] = Counter()

    def add(
        self,
        kind: Kind,
        message: str,
        *,
        severity: Severity = Severity.DAMAGE,
        file: str | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        self._counts[kind, file, severity] += 1
        if self._counts[kind, file, severity] <= _MOST_PER_KIND:
            self._kept.append(Finding(kind, severity, message, file, position, offset))

    def all(self) -> tuple[Finding, ...]:
        """With a line for each kind of which there are more than were kept."""
        more = (
            Finding(kind, severity, f"{count - _MOST_PER_KIND} more of this kind are in this file", file)
            for (kind, file, severity), count in self._counts.items()
            if count > _MOST_PER_KIND
        )
        return (*self._kept, *more)
