"""What a verification of a stored segment tells on its way. How one is made is not known here."""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.segment_files import SegmentFile


@dataclass(frozen=True, slots=True)
class Damage:
    """Something stored that is not what was copied: a block of the log, an index, or a file as a whole."""

    file: SegmentFile
    position: int
    """Where in the file it begins."""
    fact: str
    """What is wrong, for people: "is missing", "does not match its checksum"."""


@dataclass(frozen=True, slots=True)
class VerificationProgress:
    """How far a verification has come. The last one has `verified_bytes` = `total_bytes`."""

    verified_bytes: int
    total_bytes: int
    damages: tuple[Damage, ...] = ()
    """Those found since the last one."""

    @property
    def is_complete(self) -> bool:
        return self.verified_bytes == self.total_bytes
