"""A store with one of everything that housekeeping meets: what is garbage, and what never is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from crc32c import crc32c

from support.segments import make_data, make_metadata, read_back
from tiergate_client.ids import LogId, TopicId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.garbage import GarbageKind
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.store_marker import StoreMarkerV1, bind

# Just large enough for a partial upload of the log.
DATA = make_data(log_bytes=BLOCK_BYTES + 5, with_txn_index=True)
OTHER_DATA = make_data(log_bytes=BLOCK_BYTES + 5, seed=1)
STRANGERS = ("notes.txt", "notes/tiergate.json")


@dataclass(slots=True)
class Plantation:
    """Plants into a store, and remembers the keys. Garbage is what was planted as such."""

    store: ObjectStore
    metadata: RemoteLogMetadata
    garbage: dict[GarbageKind, set[str]] = field(default_factory=lambda: {kind: set() for kind in GarbageKind})
    kept: set[str] = field(default_factory=set)
    live: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    topic_id: TopicId = field(default_factory=TopicId.random)
    partials: int = 0
    """How many of them are garbage."""
    kept_partials: int = 0

    @property
    def storage(self) -> SegmentStorage:
        return SegmentStorage(self.store)

    def residents(self, log_id: LogId) -> None:
        """What is never touched."""

        def put() -> None:
            assert bind(self.store, StoreMarkerV1(log_id))
            assert self.store.put_if_absent(f"snapshots/{log_id}/000000000000001-0123456789abcdef", b"snapshot")
            for key in STRANGERS:
                assert self.store.put_if_absent(key, b"stranger")

        self.kept |= self._new_keys(put)

    def live_segment(self) -> RemoteLogSegmentMetadata:
        segment = self._segment()
        self.metadata.add_segment(segment)
        self.kept |= self._new_keys(lambda: self._finish(segment))
        self.live.append(segment)
        return segment

    def overtaken_upload(self) -> None:
        """Beside a live segment: what is left of another content under the same id."""
        segment = self._segment()
        self.metadata.add_segment(segment)
        self.garbage[GarbageKind.UPLOAD] |= self._new_keys(lambda: self._half_copy(segment, other=True))
        self.partials += 1
        self.kept |= self._new_keys(lambda: self._finish(segment))
        self.live.append(segment)

    def orphan(self) -> None:
        segment = self._segment()
        self.garbage[GarbageKind.SEGMENT] |= self._new_keys(lambda: self.storage.copy_segment(segment, DATA))

    def orphan_half_copied(self) -> None:
        segment = self._segment()
        self.garbage[GarbageKind.SEGMENT] |= self._new_keys(lambda: self._half_copy(segment))
        self.partials += 1

    def tombstone(self) -> None:
        def copy_and_delete() -> None:
            self.storage.copy_segment(segment, DATA)
            self.storage.delete_segment(segment)

        segment = self._segment()
        self.garbage[GarbageKind.TOMBSTONE] |= self._new_keys(copy_and_delete)

    def abandoned_upload(self) -> None:
        """Of a segment that the metadata knows as COPY_STARTED: its files stay for whoever tries again."""
        segment = self._segment()
        self.metadata.add_segment(segment)
        keys = self._new_keys(lambda: self._half_copy(segment))
        descriptors = {key for key in keys if key.endswith("/upload.json")}
        assert len(descriptors) == 1
        self.garbage[GarbageKind.DESCRIPTOR] |= descriptors
        self.kept |= keys - descriptors
        self.partials += 1

    def running_upload(self) -> None:
        """To be planted later than the garbage."""
        segment = self._segment()
        self.kept |= self._new_keys(lambda: self._half_copy(segment))
        self.kept_partials += 1

    def one_of_each_kind(self, log_id: LogId) -> None:
        self.residents(log_id)
        self.live_segment()
        self.overtaken_upload()
        self.orphan()
        self.orphan_half_copied()
        self.tombstone()
        self.abandoned_upload()

    @property
    def garbage_keys(self) -> set[str]:
        return set().union(*self.garbage.values())

    def counts(self) -> dict[GarbageKind, int]:
        return {kind: len(keys) for kind, keys in self.garbage.items()} | {GarbageKind.PARTIAL: self.partials}

    def assert_nothing_is_lost(self) -> None:
        assert self.kept <= stored_keys(self.store)
        for segment in self.live:
            assert read_back(self.storage, segment) == DATA

    def assert_only_the_garbage_is_gone(self) -> None:
        self.assert_nothing_is_lost()
        assert stored_keys(self.store) == self.kept
        assert len([*self.store.list_partials("")]) == self.kept_partials

    def _segment(self) -> RemoteLogSegmentMetadata:
        return make_metadata(topic_id=self.topic_id)

    def _finish(self, segment: RemoteLogSegmentMetadata) -> None:
        custom = self.storage.copy_segment(segment, DATA)
        self.metadata.update_segment(
            segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=2, custom_metadata=custom)
        )

    def _half_copy(self, segment: RemoteLogSegmentMetadata, *, other: bool = False) -> None:
        """Leaves a descriptor, an index, and most of the log on its way."""
        data = OTHER_DATA if other else DATA
        assert isinstance(data.log, bytes)
        assert isinstance(data.time_index, bytes)
        session = self.storage.begin_copy(data.manifest(segment))
        assert isinstance(session, CopySession)
        with session:
            session.write(SegmentFile.LOG, 0, data.log[:BLOCK_BYTES], crc32c(data.log[:BLOCK_BYTES]))
        # Index files are committed at the end of a session, by one that did not get as far as the manifest.
        digest = data.manifest(segment).upload_digest
        (descriptor,) = (stored.key for stored in self.store.list("") if stored.key.endswith(f"{digest}/upload.json"))
        assert self.store.put_if_absent(descriptor.replace("upload.json", "time_index"), data.time_index)

    def _new_keys(self, act: Callable[[], object]) -> set[str]:
        before = stored_keys(self.store)
        act()
        return stored_keys(self.store) - before


def stored_keys(store: ObjectStore) -> set[str]:
    return {stored.key for stored in store.list("")}
