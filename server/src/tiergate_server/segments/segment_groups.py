"""The listing of a store, segment by segment. Of all its keys, those of one segment are held at a time.

What becomes of a segment is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tiergate_client.ids import SegmentId
from tiergate_client.values import TopicIdPartition
from tiergate_server.segments.keys import SegmentKeys, partition_root
from tiergate_server.segments.object_store import ObjectInfo
from tiergate_server.segments.store_layout import Resident, SegmentKey, parse_key


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """The objects below one upload's digest."""

    digest: str
    objects: tuple[ObjectInfo, ...]
    descriptor: ObjectInfo | None

    @property
    def newest_ms(self) -> int:
        return max(stored.modified_at_ms for stored in self.objects)


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Everything that a store lists of one segment."""

    partition: TopicIdPartition
    segment_id: SegmentId
    manifest: ObjectInfo | None
    uploads: tuple[StoredUpload, ...]

    @property
    def keys(self) -> SegmentKeys:
        return SegmentKeys(f"{partition_root(self.partition)}/{self.segment_id}")

    @property
    def data(self) -> tuple[ObjectInfo, ...]:
        """All but the manifest."""
        return tuple(stored for upload in self.uploads for stored in upload.objects)

    @property
    def newest_ms(self) -> int:
        stored = self.data if self.manifest is None else (self.manifest, *self.data)
        return max(one.modified_at_ms for one in stored)


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object that is of no segment."""

    resident: Resident
    info: ObjectInfo


def grouped(listing: Iterable[ObjectInfo]) -> Iterator[SegmentGroup | OtherObject]:
    """`listing` ascends by key, so what belongs together comes together; but for keys of no layout in between."""
    of_segment: list[tuple[SegmentKey, ObjectInfo]] = []
    for info in listing:
        key = parse_key(info.key)
        if isinstance(key, Resident):
            yield OtherObject(key, info)
            continue
        if of_segment and not _are_of_one_segment(of_segment[0][0], key):
            yield _group(of_segment)
            of_segment.clear()
        of_segment.append((key, info))
    if of_segment:
        yield _group(of_segment)


def _are_of_one_segment(one: SegmentKey, other: SegmentKey) -> bool:
    return (one.segment_id, one.partition) == (other.segment_id, other.partition)


def _group(found: list[tuple[SegmentKey, ObjectInfo]]) -> SegmentGroup:
    first, _ = found[0]
    uploads: dict[str, list[tuple[SegmentKey, ObjectInfo]]] = {}
    for key, info in found:
        if key.upload_digest is not None:
            uploads.setdefault(key.upload_digest, []).append((key, info))
    return SegmentGroup(
        first.partition,
        first.segment_id,
        manifest=next((info for key, info in found if key.is_manifest), None),
        uploads=tuple(
            StoredUpload(
                digest,
                tuple(info for _, info in objects),
                descriptor=next((info for key, info in objects if key.is_descriptor), None),
            )
            for digest, objects in uploads.items()
        ),
    )
