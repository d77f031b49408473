"""What lies where in a store, read off the keys alone: the way back from `keys`, and the other residents of a store.

    key = "tiergate.json"                                     the marker
        | "snapshots/" …                                      snapshots of the metadata
        | topic-id "_" partition "/" segment-id "/" rest      a segment, as `keys` says

Every other key is of no layout that this release knows. What the objects hold is not looked at.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from tiergate_client.errors import InvalidField
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import TopicIdPartition
from tiergate_server.segments.keys import MANIFEST_NAME, UPLOAD_NAME

MARKER_KEY = "tiergate.json"
SNAPSHOTS_PREFIX = "snapshots"

_ROOT = re.compile(r"([\w-]{22})_(0|[1-9]\d{0,9})/([\w-]{22})", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{32}")
_FILES = frozenset({UPLOAD_NAME, *(file.value for file in SegmentFile)})
# The store knows a topic by its id. Lookups do not compare names.
_NAMELESS = "unknown"


class Resident(enum.Enum):
    """Who owns an object that is of no segment."""

    MARKER = "marker"
    SNAPSHOT = "snapshot"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SegmentKey:
    """An object of a segment: its manifest, or a file of one of its uploads."""

    partition: TopicIdPartition
    segment_id: SegmentId
    upload_digest: str | None
    """None: the manifest."""
    is_descriptor: bool = False

    @property
    def is_manifest(self) -> bool:
        return self.upload_digest is None


def parse_key(key: str) -> SegmentKey | Resident:
    if key == MARKER_KEY:
        return Resident.MARKER
    if key.startswith(f"{SNAPSHOTS_PREFIX}/"):
        return Resident.SNAPSHOT
    root, rest = _divided(key)
    segment = _segment_at(root)
    if segment is None:
        return Resident.UNKNOWN
    if rest == MANIFEST_NAME:
        return SegmentKey(*segment, upload_digest=None)
    digest, _, file = rest.partition("/")
    if file not in _FILES or not _DIGEST.fullmatch(digest):
        return Resident.UNKNOWN
    return SegmentKey(*segment, upload_digest=digest, is_descriptor=file == UPLOAD_NAME)


def _divided(key: str) -> tuple[str, str]:
    """A segment's root, and the rest, if the key has as many names."""
    partition, _, below = key.partition("/")
    segment_id, _, rest = below.partition("/")
    return f"{partition}/{segment_id}", rest


@lru_cache(maxsize=4)  # a listing has many keys of one segment after the other
def _segment_at(root: str) -> tuple[TopicIdPartition, SegmentId] | None:
    found = _ROOT.fullmatch(root)
    try:
        if found is not None:
            partition = TopicIdPartition(TopicId.from_text(found[1]), int(found[2]), _NAMELESS)
            return partition, SegmentId.from_text(found[3])
    except InvalidField:
        pass
    return None
