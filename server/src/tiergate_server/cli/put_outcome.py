"""What a `tiergate put` did, as a document for programs and as one line for people; it copies nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.console import counted
from tiergate_server.cli.documents import segment_document

_BYTES_PER_MB = 1_000_000


@dataclass(slots=True)
class PutOutcome:
    """What a put did so far, or would do in a dry run."""

    dry_run: bool
    copied: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    copied_bytes: int = 0

    def add_skipped(self, present: RemoteLogSegmentMetadata) -> None:
        self.skipped.append(segment_document(present))

    def add_copied(
        self, segment: LocalSegment, *, copy: RemoteLogSegmentMetadata | None, warning: str | None = None
    ) -> None:
        """Without a copy, one that would be made."""
        document = segment_document(copy) if copy else _local_document(segment)
        self.copied.append(document | {"warning": warning})
        self.copied_bytes += segment.size_bytes

    def document(self, seconds: float) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "copied": self.copied,
            "skipped": self.skipped,
            "copied_bytes": self.copied_bytes,
            "seconds": round(seconds, 3),
        }

    def summary(self, seconds: float) -> str:
        segments, size = counted(len(self.copied), "segment"), size_text(self.copied_bytes)
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        if self.dry_run:
            return f"{segments} would be copied ({size}){skipped}"
        speed = ""
        if self.copied_bytes and seconds > 0:
            speed = f" in {seconds:.1f} s, {self.copied_bytes / seconds / _BYTES_PER_MB:.0f} MB/s"
        return f"{segments} copied ({size}{speed}){skipped}"


def _local_document(segment: LocalSegment) -> dict[str, Any]:
    document = segment_document(segment.new_metadata(broker_id=-1, event_timestamp_ms=-1))
    return document | {"segment_id": None, "state": None}
