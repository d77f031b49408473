"""How far an upload has come. Sending is `_uploads`' business."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import SegmentFile

UploadKey = tuple[SegmentId, str]
"""Segment id and upload digest: what uploads of a partition are listed by."""


@dataclass(frozen=True, slots=True)
class UploadProgress:
    """What is kept of one content."""

    committed_bytes: Mapping[SegmentFile, int]
    """How much of the beginning of each file; the rest is to be sent."""
    custom_metadata: bytes | None
    """What the copy returned; None: it is not complete."""


@dataclass(frozen=True, slots=True)
class UploadSummary:
    """An upload that is not complete, running or abandoned."""

    segment_id: SegmentId
    upload_digest: str
    started_at_ms: int
    log_size_bytes: int
    log_committed_bytes: int
    store: str
