"""One upload of a segment, from its header to the manifest that makes it readable. Who sends the bytes is not known.

Every byte is checked before the store may show it: a chunk against its own checksum, a block of the log against the
header's before it is written, a whole file before it is committed. Memory: at most one block of the log, and what the
store holds of each file on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from crc32c import crc32c as checksum_of

from tiergate_client.checksums import crc32c_of_blocks
from tiergate_client.errors import (
    BackendThrottled,
    Cancelled,
    InvalidField,
    LimitExceeded,
    SegmentConflict,
    SentDataCorrupt,
    StorageUnavailable,
)
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_server.segments.custom_metadata import DEFAULT_STORE, CustomMetadataV1
from tiergate_server.segments.incoming_file import IncomingFile, IncomingLog
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest_slot import ManifestSlot
from tiergate_server.segments.pending_upload import PendingUpload

DEFAULT_INDEX_BYTES = 64 * 1024 * 1024


class CopySession:
    """Takes chunks, then `finish`. As a context it is aborted unless it was finished. Used by one thread at a time.

    Begins where an earlier or concurrent session of the same content has come to. From the beginning a descriptor in
    the store shows a delete that a copy is under way; it outlives an aborted session, so that another can continue.
    """

    def __init__(
        self,
        manifest: SegmentManifest,
        *,
        slot: ManifestSlot,
        keys: SegmentKeys,
        store_name: str = DEFAULT_STORE,
        index_bytes: int = DEFAULT_INDEX_BYTES,
    ) -> None:
        _require_index_sizes(manifest, index_bytes)
        _require_consistent_log(manifest)
        self._manifest = manifest
        self._slot = slot
        self._store = slot.store
        self._store_name = store_name
        self._digest = manifest.upload_digest
        self._keys = keys
        self._is_open = True
        self._pending = PendingUpload(manifest, keys, slot.store)
        joined = self._pending.join(slot.clock)
        self._files: dict[SegmentFile, IncomingFile] = {
            file: IncomingFile(file, announced, store=self._store, key=keys.file(self._digest, file))
            for file, announced in manifest.files.items()
            if file is not SegmentFile.LOG
        }
        log_key = keys.file(self._digest, SegmentFile.LOG)
        self._files[SegmentFile.LOG] = IncomingLog(
            manifest, joined=joined, store=self._store, key=log_key, require_stored=self._require_log
        )

    @property
    def received_bytes(self) -> Mapping[SegmentFile, int]:
        """How much of each file is there; what is sent goes on behind it."""
        return {file: incoming.received_bytes for file, incoming in self._files.items()}

    def write(self, file: SegmentFile, offset: int, data: bytes | memoryview, crc32c: int) -> None:
        """Takes a chunk: each file's in ascending order without gaps, files mixed as the sender likes.

        Raises SentDataCorrupt when a checksum differs, InvalidField for a file or bytes that were not announced,
        OffsetOutOfRange for a gap.
        """
        self._require_open()
        actual = checksum_of(data)
        if actual != crc32c:
            raise SentDataCorrupt(
                f"a chunk of the {file.value} at {offset} has checksum {actual:08x}, but came with {crc32c:08x}: "
                f"send it again"
            )
        if file not in self._files:
            raise InvalidField.of("file", f"the header announced no {file.value}")
        self._files[file].accept(offset, data, crc32c)

    def finish(self, *, is_wanted: Callable[[], bool] = lambda: True) -> bytes:
        """Makes the segment durable and readable, then returns its custom metadata.

        Making files durable can take long; `is_wanted` tells, up to the last moment, whether somebody still waits.
        Raises InvalidField when bytes are missing, SentDataCorrupt when a file is not the one announced,
        SegmentConflict when other content took the id, or it was deleted, and Cancelled when it is no longer wanted.
        """
        self._require_open()
        for incoming in self._files.values():
            incoming.verify()
        for incoming in self._files.values():
            _require_wanted(is_wanted)
            incoming.commit()
        _require_wanted(is_wanted)
        try:
            self._slot.commit(self._manifest)
        except SegmentConflict:
            self._discard()
            raise
        with suppress(StorageUnavailable, BackendThrottled):  # a descriptor that stays is removed with the segment
            self._pending.forget()
        self._close()
        return CustomMetadataV1(self._digest, self._store_name).to_bytes()

    def abort(self) -> None:
        """Lets go of the upload; fine at any time, and without effect after `finish`.

        What is kept of it stays: it can be continued, and another session of the same content may be counting on it.
        """
        if self._is_open:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidField.of("chunk", "the upload is over: begin another one")

    def _close(self) -> None:
        self._is_open = False
        for incoming in self._files.values():
            incoming.abort()

    def _require_log(self) -> None:
        """For a log whose partial upload has gone: another session has stored it, or somebody has ended the upload."""
        log_key = self._keys.file(self._digest, SegmentFile.LOG)
        try:
            if self._store.exists(log_key) or self._slot.holds(self._manifest):
                return
        except SegmentConflict:
            self._discard()
            raise
        raise StorageUnavailable(
            f"the upload of segment {self._manifest.metadata.segment_id} was ended by somebody else: begin it again",
            retry_after_ms=0,
        )

    def _discard(self) -> None:
        # Whatever holds the manifest's key keeps every session of this content from committing.
        with suppress(StorageUnavailable, BackendThrottled):
            self._store.delete_many(self._keys.file(self._digest, file) for file in self._files)
            self._pending.end()


def _require_wanted(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise Cancelled("nobody waits for this upload any more: it was dropped before it became readable")


def _require_index_sizes(manifest: SegmentManifest, index_bytes: int) -> None:
    for file, announced in manifest.files.items():
        if file is not SegmentFile.LOG and announced.size_bytes > index_bytes:
            raise LimitExceeded.of(
                "index_bytes",
                index_bytes,
                f"the {file.value} has {announced.size_bytes} bytes, but an index has at most {index_bytes} here",
            )


def _require_consistent_log(manifest: SegmentManifest) -> None:
    log = manifest.log
    of_blocks = crc32c_of_blocks(manifest.log_block_crc32c, size_bytes=log.size_bytes)
    if of_blocks != log.crc32c:
        raise SentDataCorrupt(
            f"the log has checksum {log.crc32c:08x} in the header, but its blocks make {of_blocks:08x}: compute them "
            f"from one reading"
        )
