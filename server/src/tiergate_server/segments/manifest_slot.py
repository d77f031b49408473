"""The one key that decides whether a segment is readable, and the only steps that change what lies there.

    empty ── commit ──► manifest ── bury ──► (empty) ──► tombstone        and: empty ── bury ──► tombstone

Each arrow is one atomic step of the store. Data objects are somebody else's: they are all there before `commit` is
called, and go only after `bury` has returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.clock import Clock
from tiergate_client.errors import SegmentConflict, StorageUnavailable, StoredDataCorrupt
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import SegmentManifest
from tiergate_server.segments.manifest import SegmentManifestV1, TombstoneV1, decode_manifest
from tiergate_server.segments.object_store import ObjectNotFound, ObjectStore

# Each round is lost only to another writer that got a step further in the same instant.
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class ManifestSlot:
    """The manifest's key of one segment."""

    segment_id: SegmentId
    key: str
    store: ObjectStore
    clock: Clock

    def read(self) -> SegmentManifestV1 | TombstoneV1 | None:
        """What lies there. Raises StoredDataCorrupt."""
        try:
            data = self.store.get(self.key)
        except ObjectNotFound:
            return None
        return decode_manifest(data, self.segment_id)

    def holds(self, manifest: SegmentManifest) -> bool:
        """Whether this content is committed, durably. Raises SegmentConflict when it never can be."""
        if not self._is_for(manifest):
            return False
        # Another process may have published it and been stopped before it was durable. A put answers only when what
        # holds the key is; should the manifest vanish in between, then a delete removed it, and a tombstone is right.
        if self._put_tombstone() or not self._is_for(manifest):
            raise self._deleted()
        return True

    def commit(self, manifest: SegmentManifest) -> None:
        """Makes the segment readable. Fine when the same content is there; raises SegmentConflict."""
        data = SegmentManifestV1(manifest).to_bytes()
        for _ in range(_ROUNDS):
            if self.store.put_if_absent(self.key, data) or self._is_for(manifest):
                return
        raise self._contended("committed")

    def is_empty(self) -> bool:
        try:
            return self.read() is None
        except StoredDataCorrupt:
            return False

    def bury(self) -> None:
        """Leaves a durable tombstone, whatever was there."""
        for _ in range(_ROUNDS):
            if self._is_taken_by_a_manifest():
                self.store.delete(self.key)
            if self._put_tombstone() or self._is_buried():
                return
        raise self._contended("deleted")

    def bury_unless_complete(self) -> bool:
        """Leaves a durable tombstone where nothing lies. False: a manifest is there, and stays."""
        for _ in range(_ROUNDS):
            if self._put_tombstone() or self._is_buried():
                return True
            if not self.is_empty():
                return False
        raise self._contended("aborted")

    def _is_for(self, manifest: SegmentManifest) -> bool:
        """False: nothing lies there. Raises SegmentConflict when something else does."""
        stored = self.read()
        if isinstance(stored, TombstoneV1):
            raise self._deleted()
        if stored is not None and stored.content.upload_digest != manifest.upload_digest:
            raise SegmentConflict(
                f"segment {self.segment_id} is stored with other content: take a new segment id",
                details={"segment": str(self.segment_id)},
            )
        return stored is not None

    def _is_buried(self) -> bool:
        try:
            return isinstance(self.read(), TombstoneV1)
        except StoredDataCorrupt:
            return False

    def _is_taken_by_a_manifest(self) -> bool:
        # Seen in one look: what another delete or abort puts there between two looks is a tombstone, and has to stay.
        try:
            return isinstance(self.read(), SegmentManifestV1)
        except StoredDataCorrupt:
            return True

    def _put_tombstone(self) -> bool:
        return self.store.put_if_absent(self.key, TombstoneV1(self.segment_id, self.clock()).to_bytes())

    def _deleted(self) -> SegmentConflict:
        return SegmentConflict(
            f"segment {self.segment_id} was deleted: take a new segment id", details={"segment": str(self.segment_id)}
        )

    def _contended(self, verb: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"segment {self.segment_id} could not be {verb}, since others copy and delete it all the time: try again",
            retry_after_ms=100,
        )
