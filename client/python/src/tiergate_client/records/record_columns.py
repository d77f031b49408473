"""What an engine reads, of what, and what of it is wanted; engines and those who use them agree on it here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tiergate_client.records.defects import RecordDefect

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Beside offsets and timestamps, which are always read."""

    keys: bool = False
    values: bool = False
    headers: bool = False


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Of the records of some batches; None is what was not wanted."""

    offsets: Longs
    timestamps: Longs
    keys: Any
    """An Arrow array of type binary, as values are."""
    values: Any
    headers: Longs | None
    """Two rows: where the headers of each record begin, and how many there are."""
    end: int
    """Where the records of the batches end in the data."""

    def part(self, first: int, stop: int) -> RecordColumns:
        """Those of the records from one number to before another."""
        return replace(
            self,
            offsets=self.offsets[first:stop],
            timestamps=self.timestamps[first:stop],
            keys=None if self.keys is None else self.keys.slice(first, stop - first),
            values=None if self.values is None else self.values.slice(first, stop - first),
            headers=None if self.headers is None else np.ascontiguousarray(self.headers[:, first:stop]),
        )


@dataclass(frozen=True, slots=True)
class DefectiveBatch:
    """The first one that can not be read, by its number, and why.

    No exception: the traceback of one would keep the columns that were begun, while the batches before are read again.
    """

    number: int
    defect: RecordDefect
