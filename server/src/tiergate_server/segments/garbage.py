"""What of a segment's objects is garbage, and in which order it goes. Rules only: nothing is read or deleted here.

| the metadata    | at the manifest's key      | garbage, once nothing of it is younger than the safety age            |
|---|---|---|
| knows nothing   | a manifest                 | everything: the manifest first, so that nothing half is ever readable |
| knows nothing   | a tombstone                | everything: the tombstone last, it keeps late copies out              |
| knows nothing   | nothing                    | everything                                                            |
| knows nothing   | what cannot be read        | nothing: a rebuild passed over it, and somebody may mend it           |
| knows it        | a manifest                 | uploads that the manifest does not name; descriptors of uploads       |
| knows it        | anything else              | descriptors of uploads; the rest is the business of its owner         |
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from tiergate_server.segments.manifest import SegmentManifestV1, TombstoneV1
from tiergate_server.segments.object_store import ObjectInfo
from tiergate_server.segments.segment_groups import SegmentGroup


class GarbageKind(enum.Enum):
    """Why something is garbage. The values are those of the command's JSON."""

    SEGMENT = "segment"
    UPLOAD = "upload"
    DESCRIPTOR = "descriptor"
    TOMBSTONE = "tombstone"
    PARTIAL = "partial"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    GarbageKind.SEGMENT: "segments that no metadata refers to",
    GarbageKind.UPLOAD: "uploads that another one has overtaken",
    GarbageKind.DESCRIPTOR: "descriptors of uploads that ended",
    GarbageKind.TOMBSTONE: "tombstones of deleted segments",
    GarbageKind.PARTIAL: "abandoned partial uploads",
}


class Unreadable(enum.Enum):
    """What lies at a manifest's key is damaged, or was written by a newer release."""

    UNREADABLE = enum.auto()


UNREADABLE = Unreadable.UNREADABLE

SlotContent = SegmentManifestV1 | TombstoneV1 | Unreadable | None


@dataclass(frozen=True, slots=True)
class Garbage:
    """Objects that may go at the same time."""

    kind: GarbageKind
    objects: tuple[ObjectInfo, ...]


def may_hold_garbage(group: SegmentGroup, *, is_known: bool, before_ms: int) -> bool:
    """Whether a closer look is worth its calls to the store: no for nearly every segment that is in use."""
    if not is_known:
        return group.newest_ms < before_ms
    return any(
        upload.newest_ms < before_ms and (upload.descriptor is not None or _has_rivals(group))
        for upload in group.uploads
    )


def needs_manifest(group: SegmentGroup, *, is_known: bool) -> bool:
    """Whether it matters what the manifest says: one upload beside a manifest is the one that the manifest names."""
    return group.manifest is not None and (not is_known or _has_rivals(group))


def garbage_of(group: SegmentGroup, slot: SlotContent, *, is_known: bool, before_ms: int) -> Iterator[Garbage]:
    """What has to go, in this order. `slot` is what lies at the manifest's key, if it `needs_manifest`."""
    if is_known:
        yield from _beside_a_known_segment(group, slot, before_ms=before_ms)
    elif slot is not UNREADABLE and _newest_ms(group, slot) < before_ms:
        yield from _of_an_unknown_segment(group, slot)


def _of_an_unknown_segment(group: SegmentGroup, slot: SlotContent) -> Iterator[Garbage]:
    is_buried = isinstance(slot, TombstoneV1)
    if group.manifest is not None and not is_buried:
        yield Garbage(GarbageKind.SEGMENT, (group.manifest,))
    if group.data:
        yield Garbage(GarbageKind.SEGMENT, group.data)
    if group.manifest is not None and is_buried:
        yield Garbage(GarbageKind.TOMBSTONE, (group.manifest,))


def _beside_a_known_segment(group: SegmentGroup, slot: SlotContent, *, before_ms: int) -> Iterator[Garbage]:
    named = slot.content.upload_digest if isinstance(slot, SegmentManifestV1) else None
    for upload in group.uploads:
        if upload.newest_ms >= before_ms:
            continue
        if named is not None and upload.digest != named:
            yield Garbage(GarbageKind.UPLOAD, upload.objects)
        elif upload.descriptor is not None:
            yield Garbage(GarbageKind.DESCRIPTOR, (upload.descriptor,))


def _newest_ms(group: SegmentGroup, slot: SlotContent) -> int:
    # The later one of both clocks: a tombstone that came too early lets a late copy of its segment complete.
    return max(group.newest_ms, slot.deleted_at_ms) if isinstance(slot, TombstoneV1) else group.newest_ms


def _has_rivals(group: SegmentGroup) -> bool:
    return group.manifest is not None and len(group.uploads) > 1
