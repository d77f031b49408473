"""Where the files of a segment can be read without the service. How they are read is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiergate_client.segment_files import SegmentFile, SegmentManifest


@dataclass(frozen=True, slots=True)
class ResolvedSegment:
    """A URL for each file of a segment, and what the bytes from there have to be.

    Whoever has a URL may read what it names until it expires, so they are left out of what is printed and logged.
    """

    manifest: SegmentManifest
    urls: Mapping[SegmentFile, str] = field(repr=False)
    expires_at_ms: int
    """By the server's clock."""
    valid_ms: int
    """The same as a span, for a clock that differs."""
