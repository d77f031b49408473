"""Segments over an object store: copy, read, delete. Speaks no protocol, and knows no particular store.

Why a segment is whole or absent at every moment, also when a process or the power stops between any two steps:

- Copy: descriptor, data objects, manifest, descriptor gone, answer. Each step is durable before the next. The manifest
  is the only thing readers begin with, and it comes when everything it names is durable: nothing half is ever readable,
  and what was acknowledged is whole. Data keys contain the digest of the content, so writers of other content never
  share one, and writers of the same content may.
- Delete: manifest gone, tombstone, data gone, answer. From the first step on nothing is readable. A copy under way is
  seen by its descriptor, its data or its manifest, of which at least one is always there; then the tombstone takes the
  manifest's key, and the copy's commit fails. A copy that begins later than the delete looks comes after it. Aborting
  an upload is the same, but for the first step.
- A delete that is stopped after its first step leaves data without a manifest: unreadable, and the next delete sees it.
- A reader that finds a manifest but not its data looks at the manifest again: only if it is still there bytes are lost.
- Two deletes that both saw the manifest could remove each other's tombstone, since a store deletes by key whatever is
  there. Inside one process they take turns. Between replicas the key can be empty for the moment until the later one
  puts its tombstone: another copy of the same id, still under way, that commits just then although its data is gone is
  removed again by that delete, or, if that is stopped there, by its retry. Until then it reads as corrupt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence

from crc32c import crc32c

from tiergate_client.clock import Clock, system_clock
from tiergate_client.errors import (
    DeadlineExceeded,
    InvalidField,
    OffsetOutOfRange,
    SegmentNotFound,
    SentDataCorrupt,
    TiergateError,
)
from tiergate_client.integers import require_int64
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.stored_reads import (
    end_of_range,
    index_of,
    require_files,
    require_index,
    require_range,
    stored_data_corrupt,
    widened,
)
from tiergate_client.upload_progress import UploadKey, UploadProgress, UploadSummary
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_client.verification import VerificationProgress
from tiergate_server.segments.call_deadline import in_time, remaining_s
from tiergate_server.segments.copy_session import DEFAULT_INDEX_BYTES, CopySession
from tiergate_server.segments.custom_metadata import DEFAULT_STORE, CustomMetadataV1
from tiergate_server.segments.keys import UPLOAD_NAME, SegmentKeys, partition_root
from tiergate_server.segments.manifest import SegmentManifestV1
from tiergate_server.segments.manifest_slot import ManifestSlot
from tiergate_server.segments.object_store import ObjectNotFound, ObjectReader, ObjectStore
from tiergate_server.segments.pending_upload import PendingUpload, read_descriptor
from tiergate_server.segments.removal import SegmentRemoval
from tiergate_server.segments.segment_cache import SegmentCache
from tiergate_server.segments.segment_urls import DEFAULT_URL_SECONDS, offers_urls, resolved
from tiergate_server.segments.verification import SegmentVerification
from tiergate_server.segments.verified_blocks import VerifiedRange
from tiergate_server.segments.verified_index import IndexPiece, verified_slice

_LOCK_STRIPES = 64


class SegmentStorage(RemoteStorage):
    """The bytes of segments in `store`, which custom metadata calls `name`."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        name: str = DEFAULT_STORE,
        clock: Clock = system_clock,
        index_bytes: int = DEFAULT_INDEX_BYTES,
        url_seconds: int = DEFAULT_URL_SECONDS,
        cache: SegmentCache | None = None,
    ) -> None:
        self._store = store
        self.name = name
        self._clock = clock
        self._index_bytes = index_bytes
        self._url_seconds = url_seconds
        self._cache = cache or SegmentCache(0)
        self._delete_locks = tuple(threading.Lock() for _ in range(_LOCK_STRIPES))

    def begin_copy(self, manifest: SegmentManifest) -> CopySession | bytes:
        """A session that takes the content, or the custom metadata at once when exactly this content is there.

        Raises SegmentConflict for other content, or when the id was deleted; LimitExceeded for a huge index.
        """
        slot = self._slot(manifest.metadata)
        if slot.holds(manifest):
            return self._custom_metadata(manifest)
        return CopySession(
            manifest,
            slot=slot,
            keys=self._keys(manifest.metadata),
            store_name=self.name,
            index_bytes=self._index_bytes,
        )

    def get_upload(self, manifest: SegmentManifest) -> UploadProgress:
        if self._slot(manifest.metadata).holds(manifest):
            everything = {file: announced.size_bytes for file, announced in manifest.files.items()}
            return UploadProgress(everything, self._custom_metadata(manifest))
        committed = dict.fromkeys(manifest.files, 0)
        committed[SegmentFile.LOG] = self._pending(manifest).committed_log_bytes()
        return UploadProgress(committed, None)

    def list_uploads(self, partition: TopicIdPartition, *, after: UploadKey | None = None) -> Iterator[UploadSummary]:
        root = partition_root(partition)
        behind = "" if after is None else f"{root}/{after[0]}/{after[1]}/{UPLOAD_NAME}"
        for stored in self._store.list(root, after=behind):
            _require_time(partition)
            if not stored.key.endswith(f"/{UPLOAD_NAME}"):
                continue
            descriptor = read_descriptor(self._store, stored.key)
            if descriptor is not None:
                manifest = descriptor.manifest
                yield UploadSummary(
                    manifest.metadata.segment_id,
                    manifest.upload_digest,
                    descriptor.started_at_ms,
                    log_size_bytes=manifest.log.size_bytes,
                    log_committed_bytes=self._pending(manifest).committed_log_bytes(),
                    store=self.name,
                )

    def abort_upload(self, metadata: RemoteLogSegmentMetadata) -> bool:
        with in_time(self._delete_lock(metadata)):
            return SegmentRemoval(self._slot(metadata), self._keys(metadata)).abort()

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        begun = self.begin_copy(data.manifest(metadata))
        if isinstance(begun, bytes):
            return begun
        with begun as session:
            try:
                for chunk in data.chunks(begin_at=session.received_bytes):
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
        return SegmentStream(iter(verified), verified.close)

    def fetch_verified(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> VerifiedRange:
        """Like `fetch_segment`, with the checksums that were computed on the way."""
        require_range(offset, length)
        manifest = self.get_manifest(metadata)
        end = end_of_range(manifest, offset, length)
        reader = None
        if offset < end:
            begin, end_of_blocks = widened(offset, end, size=manifest.log.size_bytes)
            reader = self._open(manifest, SegmentFile.LOG, offset=begin, length=end_of_blocks - begin)
        return VerifiedRange(reader, manifest, offset=offset, end=end)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        return self.fetch_index_piece(metadata, file, offset=0, max_bytes=None).data

    def fetch_index_piece(
        self, metadata: RemoteLogSegmentMetadata, file: SegmentFile, *, offset: int, max_bytes: int | None
    ) -> IndexPiece:
        """At most `max_bytes` of an index from `offset` on. The whole file is verified, once if the cache holds it."""
        require_index(file)
        require_int64("offset", offset, minimum=0)
        manifest = self.get_manifest(metadata)
        whole = index_of(manifest, file)
        size = whole.size_bytes
        if offset > size:
            raise OffsetOutOfRange(
                f"the {file.value} of segment {metadata.segment_id} has {size} bytes, so there is nothing at {offset}: "
                f"ask within",
                details={"earliest": "0", "latest": str(size)},
            )
        end = size if max_bytes is None else min(offset + max_bytes, size)
        return IndexPiece(self._index_bytes_of(manifest, file, offset=offset, end=end), whole)

    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        answers: list[bytes | TiergateError] = []
        for question in questions:
            try:
                answers.append(self.fetch_index(question.metadata, question.file))
            except TiergateError as error:
                answers.append(error)
        return answers

    def fetch_index_within(
        self, metadata: RemoteLogSegmentMetadata, file: SegmentFile, *, max_bytes: int
    ) -> IndexPiece | None:
        """Like `fetch_index`; None, and nothing is read, when the index is larger."""
        require_index(file)
        manifest = self.get_manifest(metadata)
        whole = index_of(manifest, file)
        if whole.size_bytes > max_bytes:
            return None
        return IndexPiece(self._index_bytes_of(manifest, file, offset=0, end=whole.size_bytes), whole)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        keys = self._keys(metadata)
        with in_time(self._delete_lock(metadata)):
            try:
                SegmentRemoval(self._slot(metadata), keys).remove()
            finally:  # also a removal that broke off may have taken the manifest away
                self._cache.forget(keys)

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        return self._cache.manifest(self._keys(metadata), lambda: self._stored_manifest(metadata))

    def verify_segment(self, metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        manifest = self._manifest_of_now(metadata)
        keys = self._keys(metadata)
        return SegmentVerification(
            manifest,
            lambda file, length: self._store.open_range(
                keys.file(manifest.upload_digest, file), offset=0, length=length
            ),
            require_segment=lambda: self._manifest_of_now(metadata),
            monotonic_s=time.monotonic,
        ).run()

    def _manifest_of_now(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        return self._cache.fresh_manifest(self._keys(metadata), lambda: self._stored_manifest(metadata))

    def _stored_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        stored = self._slot(metadata).read()
        if not isinstance(stored, SegmentManifestV1):
            raise SegmentNotFound(
                f"there is no segment {metadata.segment_id} of {metadata.partition}, or it is not complete",
                details={"segment": str(metadata.segment_id)},
            )
        return stored.content

    def resolve_segment(
        self, metadata: RemoteLogSegmentMetadata, *, valid_s: int = 0, files: Collection[SegmentFile] = ()
    ) -> ResolvedSegment:
        require_int64("valid_seconds", valid_s, minimum=0)
        require_files(files)
        manifest = self._manifest_of_now(metadata)  # who asks keeps the answer for a while, and two caches are too many
        valid_s = min(valid_s or self._url_seconds, self._url_seconds)
        asked = [file for file in manifest.files if not files or file in files]
        return resolved(manifest, asked, self._keys(metadata), self._store, valid_s=valid_s, now_ms=self._clock())

    def offers_urls(self) -> bool:
        """Whether segments can be resolved here."""
        return offers_urls(self._store)

    def _custom_metadata(self, manifest: SegmentManifest) -> bytes:
        return CustomMetadataV1(manifest.upload_digest, self.name).to_bytes()

    def _pending(self, manifest: SegmentManifest) -> PendingUpload:
        return PendingUpload(manifest, self._keys(manifest.metadata), self._store)

    def _delete_lock(self, metadata: RemoteLogSegmentMetadata) -> threading.Lock:
        return self._delete_locks[hash(metadata.segment_id) % _LOCK_STRIPES]

    def _keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        return SegmentKeys.of(metadata)

    def _slot(self, metadata: RemoteLogSegmentMetadata) -> ManifestSlot:
        return ManifestSlot(metadata.segment_id, self._keys(metadata).manifest, self._store, self._clock)

    def _index_bytes_of(self, manifest: SegmentManifest, file: SegmentFile, *, offset: int, end: int) -> bytes:
        size = manifest.files[file].size_bytes

        def read(offset: int, end: int) -> bytes:
            with self._open(manifest, file, offset=0, length=size) as reader:
                return verified_slice(reader, manifest, file, offset=offset, end=end)

        if size == 0:
            return b""
        key = self._keys(manifest.metadata).file(manifest.upload_digest, file)
        whole = self._cache.index(key, size_bytes=size, read=lambda: read(0, size))
        return read(offset, end) if whole is None else whole[offset:end]

    def _open(self, manifest: SegmentManifest, file: SegmentFile, *, offset: int, length: int) -> ObjectReader:
        key = self._keys(manifest.metadata).file(manifest.upload_digest, file)
        try:
            return self._store.open_range(key, offset=offset, length=length)
        except ObjectNotFound:
            self._manifest_of_now(manifest.metadata)  # raises SegmentNotFound when it was deleted meanwhile
            raise stored_data_corrupt(manifest, file, offset, "is missing") from None


def _require_time(partition: TopicIdPartition) -> None:
    # A partition can have millions of objects, and what is kept of an upload may have to be read to be counted.
    if remaining_s() == 0:
        raise DeadlineExceeded(f"the uploads of {partition} could not be listed in time: ask with a later deadline")
