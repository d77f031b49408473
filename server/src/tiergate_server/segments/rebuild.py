"""Reads the manifests of stores back into a metadata log that has lost, or never had, what they say.

Manifests say which segments are whole, and nothing else: see CANNOT_TELL. Whether the log may be written is decided by
whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import groupby
from typing import Protocol

from tiergate_client.errors import (
    InvalidField,
    InvalidTransition,
    NotOffered,
    SegmentConflict,
    SegmentNotFound,
    StoredDataCorrupt,
)
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.keys import partition_root
from tiergate_server.segments.manifest import TombstoneV1, decode_manifest
from tiergate_server.segments.object_store import ObjectNotFound, ObjectStore
from tiergate_server.segments.segment_groups import SegmentGroup, grouped

CANNOT_TELL = (
    "the order of history: of segments that overlap, the one whose copy began last has replaced the others",
    "deletions under way: a segment whose bytes were still whole is there again, any other is gone",
    "copies under way: they are gone, and their bytes are garbage",
    "deletions of whole partitions: what is left of such a partition is there again",
)
"""What manifests leave open, and how a rebuilt log answers it."""


@dataclass(slots=True)
class RebuildReport:
    """What was found, and what became of it."""

    added: int = 0
    present: int = 0
    """In the log already, from an earlier attempt; a run that writes nothing counts them as added."""
    tombstones: int = 0
    unfinished: int = 0
    """Without a manifest, or without it by now."""
    skipped: list[str] = field(default_factory=list)
    """Sentences about manifests that could not be used."""


@dataclass(frozen=True, slots=True)
class _FoundSegment:
    """A whole segment, as its manifest says."""

    metadata: RemoteLogSegmentMetadata
    custom_metadata: bytes

    @property
    def order(self) -> tuple[int, int, bytes]:
        metadata = self.metadata
        return metadata.event_timestamp_ms, metadata.start_offset, metadata.segment_id.raw


_Listed = tuple[str, str, SegmentGroup]
"""The root of a partition, the name of a store, and a segment there."""
_Fetched = tuple[str, SegmentGroup, bytes | None]
"""The name of a store, a segment there, and what lies at its manifest's key."""


class FetchAll(Protocol):
    """Calls `fetch` for all, as it likes, and gives the answers in their order."""

    def __call__(self, fetch: Callable[[_Listed], _Fetched], listed: Iterable[_Listed], /) -> Iterator[_Fetched]: ...


class Rebuild:
    """One run over all stores, by name. Every step may be repeated: a run that was cut off is simply begun again."""

    def __init__(
        self,
        stores: Mapping[str, ObjectStore],
        metadata: RemoteLogMetadata,
        *,
        writes: bool,
        fetch_all: FetchAll = map,
        observe: Callable[[RebuildReport], None] = lambda _: None,
    ) -> None:
        """`fetch_all` is `map`, or one with threads behind it: each manifest is a call to its store."""
        self._stores = stores
        self._metadata = metadata
        self._writes = writes
        self._fetch_all = fetch_all
        self._observe = observe
        self.report = RebuildReport()

    def run(self) -> RebuildReport:
        """Raises what stores and metadata raise; what was added until then stays."""
        by_partition = merge(*map(self._groups, self._stores), key=lambda found: found[0])
        for _, of_partition in groupby(by_partition, key=lambda found: found[0]):
            read = map(self._read, self._fetch_all(self._fetched, of_partition))
            for segment in sorted(filter(None, read), key=lambda one: one.order):
                self._add(segment)
                self._observe(self.report)
        return self.report

    def _groups(self, name: str) -> Iterator[_Listed]:
        for found in grouped(self._stores[name].list("")):
            if isinstance(found, SegmentGroup):
                # With the slash, as in the keys: without it, the store's order would be another one.
                yield f"{partition_root(found.partition)}/", name, found

    def _fetched(self, listed: _Listed) -> _Fetched:
        _, name, group = listed
        try:
            return name, group, None if group.manifest is None else self._stores[name].get(group.keys.manifest)
        except ObjectNotFound:  # deleted since it was listed
            return name, group, None

    def _read(self, fetched: _Fetched) -> _FoundSegment | None:
        name, group, data = fetched
        if data is None:
            self.report.unfinished += 1
            return None
        try:
            stored = decode_manifest(data, group.segment_id)
        except (StoredDataCorrupt, NotOffered) as trouble:
            self._skip(name, group, trouble.message)
            return None
        if isinstance(stored, TombstoneV1):
            self.report.tombstones += 1
            return None
        metadata = stored.content.metadata
        if metadata.partition != group.partition:
            self._skip(name, group, f"it is of {metadata.partition}")
            return None
        return _FoundSegment(
            replace(metadata, state=SegmentState.COPY_STARTED, custom_metadata=None),
            CustomMetadataV1(stored.content.upload_digest, name).to_bytes(),
        )

    def _add(self, found: _FoundSegment) -> None:
        started = found.metadata
        finished = started.step(
            SegmentState.COPY_FINISHED,
            event_timestamp_ms=started.event_timestamp_ms,
            custom_metadata=found.custom_metadata,
        )
        try:
            if self._writes:
                self._metadata.add_segment(started)
                self._metadata.update_segment(finished)
        except (InvalidTransition, InvalidField, SegmentConflict) as refusal:
            if self._is_finished(started):
                self.report.present += 1
            else:
                self.report.skipped.append(f"segment {started.segment_id} was not taken by the log: {refusal.message}")
        else:
            self.report.added += 1

    def _is_finished(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Or later in its life."""
        try:
            known = self._metadata.get_segment(metadata.segment_id, partition=metadata.partition)
        except SegmentNotFound:
            return False
        return known.state is not SegmentState.COPY_STARTED

    def _skip(self, name: str, group: SegmentGroup, why: str) -> None:
        self.report.skipped.append(f"{group.keys.manifest} in store {name} was not used: {why}")
