"""Finds the garbage of one store, and removes it. It goes through the listing once, whatever the store's size.

Held at a time: the keys of one segment, and the ids of one partition's segments that the metadata knows. Whether this
metadata may judge this store at all is decided before, by whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tiergate_client.errors import NotOffered, SegmentNotFound, StoredDataCorrupt
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import TopicIdPartition
from tiergate_server.segments.garbage import (
    UNREADABLE,
    Garbage,
    GarbageKind,
    SlotContent,
    garbage_of,
    may_hold_garbage,
    needs_manifest,
)
from tiergate_server.segments.manifest import decode_manifest
from tiergate_server.segments.object_store import ObjectInfo, ObjectNotFound, ObjectStore, PartialInfo
from tiergate_server.segments.segment_groups import OtherObject, SegmentGroup, grouped
from tiergate_server.segments.store_layout import Resident, SegmentKey, parse_key

_EXAMPLES = 10


@dataclass(slots=True)
class Tally:
    """So many objects, of so many bytes."""

    objects: int = 0
    size_bytes: int = 0

    def add(self, *objects: ObjectInfo) -> None:
        self.objects += len(objects)
        self.size_bytes += sum(stored.size_bytes for stored in objects)


@dataclass(slots=True)
class GarbageReport:
    """What a store holds, as far as it was looked at."""

    seen: Tally = field(default_factory=Tally)
    garbage: dict[GarbageKind, Tally] = field(default_factory=lambda: {kind: Tally() for kind in GarbageKind})
    unknown: Tally = field(default_factory=Tally)
    """Of no layout that this release knows, or manifests that cannot be read: left alone."""
    unknown_keys: list[str] = field(default_factory=list)
    """The first few of them."""

    def leave(self, stored: ObjectInfo) -> None:
        self.unknown.add(stored)
        if len(self.unknown_keys) < _EXAMPLES:
            self.unknown_keys.append(stored.key)

    @property
    def found(self) -> Tally:
        tallies = self.garbage.values()
        return Tally(sum(tally.objects for tally in tallies), sum(tally.size_bytes for tally in tallies))


class GarbageCollection:
    """One run over one store. `before_ms` is the safety age: what was touched then or later is nobody's garbage."""

    def __init__(
        self,
        store: ObjectStore,
        metadata: RemoteLogMetadata,
        *,
        before_ms: int,
        deletes: bool,
        observe: Callable[[GarbageReport], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._before_ms = before_ms
        self._deletes = deletes
        self._observe = observe
        self._partition: TopicIdPartition | None = None
        self._known: frozenset[bytes] = frozenset()
        self.report = GarbageReport()
        """Up to date at any time, also when the run was cut off."""

    def run(self) -> GarbageReport:
        """Raises what store and metadata raise; what was removed until then is gone, and the next run goes on."""
        # First: what is left of these afterwards is younger than the safety age, and protects its segment.
        for partial in self._store.list_partials(""):
            self._judge_partial(partial)
        for found in grouped(self._counted()):
            if isinstance(found, SegmentGroup):
                self._judge(found)
            elif found.resident is Resident.UNKNOWN:
                self.report.leave(found.info)
        return self.report

    def _counted(self) -> Iterator[ObjectInfo]:
        for info in self._store.list(""):
            self.report.seen.add(info)
            self._observe(self.report)
            yield info

    def _judge_partial(self, partial: PartialInfo) -> None:
        key = parse_key(partial.key)
        if key in (Resident.UNKNOWN, Resident.MARKER) or self._is_young(partial):
            return
        if isinstance(key, SegmentKey) and self._is_upload_alive(partial.key.rpartition("/")[0]):
            return
        self.report.garbage[GarbageKind.PARTIAL].objects += 1
        if self._deletes:
            self._store.end_partial(partial.key, partial.handle)

    def _is_upload_alive(self, root: str) -> bool:
        """Begun long ago and still under way: its other files came since."""
        return any(stored.modified_at_ms >= self._before_ms for stored in self._store.list(root))

    def _judge(self, listed: SegmentGroup) -> None:
        is_known = listed.segment_id.raw in self._known_ids(listed.partition)
        if not may_hold_garbage(listed, is_known=is_known, before_ms=self._before_ms):
            return
        # All anew: the listing is old by now, and somebody may have added, copied or deleted the segment since.
        group = self._listed_again(listed)
        if group is None or self._has_young_partials(group):
            return
        slot = _read_slot(self._store, group) if needs_manifest(group, is_known=is_known) else None
        if not is_known and self._is_known_by_now(group):
            return
        if slot is UNREADABLE and group.manifest is not None:
            self.report.leave(group.manifest)
        for garbage in garbage_of(group, slot, is_known=is_known, before_ms=self._before_ms):
            self._remove(garbage)

    def _known_ids(self, partition: TopicIdPartition) -> frozenset[bytes]:
        if partition != self._partition:
            self._known = frozenset()  # not both at once
            self._known = frozenset(segment.segment_id.raw for segment in self._metadata.list_segments(partition))
            self._partition = partition
        return self._known

    def _is_known_by_now(self, group: SegmentGroup) -> bool:
        try:
            self._metadata.get_segment(group.segment_id, partition=group.partition)
        except SegmentNotFound:
            return False
        return True

    def _listed_again(self, group: SegmentGroup) -> SegmentGroup | None:
        of_segment = (
            found for found in grouped(self._store.list(group.keys.root)) if not isinstance(found, OtherObject)
        )
        return next(of_segment, None)

    def _has_young_partials(self, group: SegmentGroup) -> bool:
        return any(self._is_young(partial) for partial in self._store.list_partials(group.keys.root))

    def _is_young(self, partial: PartialInfo) -> bool:
        before_ms = self._before_ms
        return partial.begun_at_ms >= before_ms or self._store.last_written_ms(partial) >= before_ms

    def _remove(self, garbage: Garbage) -> None:
        self.report.garbage[garbage.kind].add(*garbage.objects)
        if self._deletes:
            self._store.delete_many(stored.key for stored in garbage.objects)


def _read_slot(store: ObjectStore, group: SegmentGroup) -> SlotContent:
    try:
        return decode_manifest(store.get(group.keys.manifest), group.segment_id)
    except ObjectNotFound:
        return None
    except (StoredDataCorrupt, NotOffered):
        return UNREADABLE


def holds_segments(store: ObjectStore) -> bool:
    """Whether there are bytes of any segment: tombstones are none."""
    return any(isinstance(found, SegmentGroup) and found.uploads for found in grouped(store.list("")))
