"""What can be wrong with a batch, and the error that says so; finding out is not done here."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tiergate_client.errors import CorruptBatch

MOST_HEADERS: Final = 512 * 1024
"""Of a record: more than fit into a MiB, Kafka's own limit; each takes two bytes, and a hundred once it is read."""

WRONG_CHECKSUM: Final = "its checksum does not match its bytes"
_WAY_OUT = "restore the segment from another replica, or read on behind this batch"


class RecordDefect(enum.IntEnum):
    """Why records can not be read, as the engines report it; 0 is none."""

    NONE = 0
    RECORD_CUT = 1
    RECORD_LENGTH = 2
    NUMBER = 3
    FIELD_LENGTH = 4
    OFFSET = 5
    HEADERS = 6
    REST = 7
    MANY_HEADERS = 8


REASONS = {
    RecordDefect.RECORD_CUT: "its records end before as many are read as its header counts",
    RecordDefect.RECORD_LENGTH: "the fields of a record do not fill its length",
    RecordDefect.NUMBER: "a number in a record does not end in time",
    RecordDefect.FIELD_LENGTH: "the key or value of a record reaches beyond it",
    RecordDefect.OFFSET: "the offsets of its records do not ascend within the batch",
    RecordDefect.HEADERS: "the headers of a record reach beyond it",
    RecordDefect.MANY_HEADERS: f"a record has more than {MOST_HEADERS} headers, the most that are read",
    RecordDefect.REST: "bytes are left behind the last record that its header counts",
}


@dataclass(frozen=True, slots=True)
class BatchDefect:
    """A batch that can not be read: where it begins and why."""

    position: int
    reason: str

    def error(self, *, segment: str) -> CorruptBatch:
        named = f" of segment {segment}" if segment else ""
        return CorruptBatch(
            f"The batch at position {self.position}{named} can not be read: {self.reason}; {_WAY_OUT}.",
            details={"segment": segment, "position": str(self.position)},
        )


class FoundDefect(Exception):
    """Reading came to a batch with a defect."""

    def __init__(self, defect: BatchDefect) -> None:
        super().__init__(defect.reason)
        self.defect = defect
