"""Segments over an object store: copy, read, delete. Speaks no protocol, and knows no particular store.

Why a segment is whole or absent at every moment, also when a process or the power stops between any two steps:

- Copy: marker, data objects, manifest, marker gone, answer. Each step is durable before the next. The manifest is the
  only thing readers begin with, and it comes when everything it names is durable: nothing half is ever readable, and
  what was acknowledged is whole. Data keys contain the digest of the content, so writers of other content never share
  one, and writers of the same content may.
- Delete: manifest gone, tombstone, data gone, answer. From the first step on nothing is readable. A copy under way is
  seen by its marker, its data or its manifest, of which at least one is always there; then the tombstone takes the
  manifest's key, and the copy's commit fails. A copy that begins later than the delete looks comes after it.
- A delete that is stopped after its first step leaves data without a manifest: unreadable, and the next delete sees it.
- A reader that finds a manifest but not its data looks at the manifest again: only if it is still there bytes are lost.
- Two deletes at once could remove each other's tombstone, since a store deletes by key whatever is there. Inside one
  process they take turns. Between replicas the key can be empty for the moment until the later one puts its tombstone:
  a cancelled copy that commits just then is removed again by that delete, or, if that is stopped there, by its retry.
"""

from __future__ import annotations

import threading

from crc32c import crc32c

from tiergate_client.errors import (
    IndexNotFound,
    InvalidField,
    OffsetOutOfRange,
    SegmentNotFound,
    SentDataCorrupt,
)
from tiergate_client.integers import require_int64
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.clock import Clock, system_clock
from tiergate_server.segments.copy_session import DEFAULT_INDEX_BYTES, CopySession
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest import SegmentManifestV1
from tiergate_server.segments.manifest_slot import ManifestSlot
from tiergate_server.segments.object_store import ObjectNotFound, ObjectReader, ObjectStore
from tiergate_server.segments.verified_blocks import VerifiedRange, stored_data_corrupt, widened
from tiergate_server.segments.verified_index import IndexPiece, verified_slice

_LOCK_STRIPES = 64


class SegmentStorage(RemoteStorage):
    """The bytes of segments in `store`, below `prefix`."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        prefix: str = "",
        clock: Clock = system_clock,
        index_bytes: int = DEFAULT_INDEX_BYTES,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._index_bytes = index_bytes
        self._delete_locks = tuple(threading.Lock() for _ in range(_LOCK_STRIPES))

    def begin_copy(self, manifest: SegmentManifest) -> CopySession | bytes:
        """A session that takes the content, or the custom metadata at once when exactly this content is there.

        Raises SegmentConflict for other content, or when the id was deleted; LimitExceeded for a huge index.
        """
        slot = self._slot(manifest.metadata)
        if slot.holds(manifest):
            return CustomMetadataV1(manifest.upload_digest).to_bytes()
        return CopySession(manifest, slot=slot, keys=self._keys(manifest.metadata), index_bytes=self._index_bytes)

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        begun = self.begin_copy(data.manifest(metadata))
        if isinstance(begun, bytes):
            return begun
        with begun as session:
            try:
                for chunk in data.chunks():
                    session.write(chunk.file, chunk.offset, chunk.data, crc32c(chunk.data))
                return session.finish()
            except InvalidField as error:  # the header was made from the same files a moment ago
                raise SentDataCorrupt(
                    f"segment {metadata.segment_id} changed while it was read ({error.message}): copy it again"
                ) from error

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        verified = self.fetch_verified(metadata, offset=offset, length=length)
        return SegmentStream((piece.data for piece in verified), verified.close)

    def fetch_verified(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> VerifiedRange:
        """Like `fetch_segment`, with the checksums that were computed on the way."""
        if offset < 0:
            raise InvalidField.of("offset", f"{offset} is negative")
        if length is not None and length < 1:
            raise InvalidField.of("length", f"{length} is not positive")
        manifest = self.get_manifest(metadata)
        size = manifest.log.size_bytes
        if offset > size:
            raise OffsetOutOfRange(
                f"segment {metadata.segment_id} has {size} bytes, so there is nothing at {offset}: ask within",
                details={"earliest": "0", "latest": str(size)},
            )
        end = size if length is None else min(offset + length, size)
        reader = None
        if offset < end:
            begin, end_of_blocks = widened(offset, end, size=size)
            reader = self._open(manifest, SegmentFile.LOG, offset=begin, length=end_of_blocks - begin)
        return VerifiedRange(reader, manifest, offset=offset, end=end)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        return self.fetch_index_piece(metadata, file, offset=0, max_bytes=None).data

    def fetch_index_piece(
        self, metadata: RemoteLogSegmentMetadata, file: SegmentFile, *, offset: int, max_bytes: int | None
    ) -> IndexPiece:
        """At most `max_bytes` of an index from `offset` on. The whole file is verified, but only the piece is kept."""
        if file is SegmentFile.LOG:
            raise InvalidField.of("file", "the log is no index: fetch the segment")
        require_int64("offset", offset, minimum=0)
        manifest = self.get_manifest(metadata)
        whole = manifest.files.get(file)
        if whole is None:
            raise IndexNotFound(
                f"segment {metadata.segment_id} has no {file.value}",
                details={"segment": str(metadata.segment_id), "file": file.value},
            )
        size = whole.size_bytes
        if offset > size:
            raise OffsetOutOfRange(
                f"the {file.value} of segment {metadata.segment_id} has {size} bytes, so there is nothing at {offset}: "
                f"ask within",
                details={"earliest": "0", "latest": str(size)},
            )
        end = size if max_bytes is None else min(offset + max_bytes, size)
        if size == 0:
            return IndexPiece(b"", whole)
        with self._open(manifest, file, offset=0, length=size) as reader:
            return IndexPiece(verified_slice(reader, manifest, file, offset=offset, end=end), whole)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        keys = self._keys(metadata)
        with self._delete_locks[hash(metadata.segment_id) % _LOCK_STRIPES]:
            slot = self._slot(metadata)
            # In this order: a copy that takes its marker away while the listing runs has put its manifest before.
            if next(self._store.list(keys.root), None) is None and slot.is_empty():
                return
            slot.bury()
            for stored in self._store.list(keys.root):
                if stored.key != keys.manifest:
                    self._store.delete(stored.key)

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        stored = self._slot(metadata).read()
        if not isinstance(stored, SegmentManifestV1):
            raise SegmentNotFound(
                f"there is no segment {metadata.segment_id} of {metadata.partition}, or it is not complete",
                details={"segment": str(metadata.segment_id)},
            )
        return stored.content

    def _keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        return SegmentKeys.of(metadata, prefix=self._prefix)

    def _slot(self, metadata: RemoteLogSegmentMetadata) -> ManifestSlot:
        return ManifestSlot(metadata.segment_id, self._keys(metadata).manifest, self._store, self._clock)

    def _open(self, manifest: SegmentManifest, file: SegmentFile, *, offset: int, length: int) -> ObjectReader:
        key = self._keys(manifest.metadata).file(manifest.upload_digest, file)
        try:
            return self._store.open_range(key, offset=offset, length=length)
        except ObjectNotFound:
            self.get_manifest(manifest.metadata)  # raises SegmentNotFound when it was deleted meanwhile
            raise stored_data_corrupt(manifest, file, offset, "is missing") from None
