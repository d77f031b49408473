"""One upload of a segment, from its header to the manifest that makes it readable. Who sends the bytes is not known.

Every byte is checked before the store may show it: a chunk against its own checksum, a block of the log against the
header's before it is written, a whole file before it is committed. Memory: at most one block of the log.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from crc32c import crc32c as checksum_of

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
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.incoming_file import IncomingFile, IncomingLog
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest_slot import ManifestSlot

DEFAULT_INDEX_BYTES = 64 * 1024 * 1024


class CopySession:
    """Takes chunks, then `finish`. As a context it is aborted unless it was finished. Used by one thread at a time.

    From the beginning an object of its own, the marker, shows a delete that a copy is under way. Its key is not shared
    with other sessions of the same content: the first one to end would take away the trace of the others.
    """

    def __init__(
        self,
        manifest: SegmentManifest,
        *,
        slot: ManifestSlot,
        keys: SegmentKeys,
        index_bytes: int = DEFAULT_INDEX_BYTES,
    ) -> None:
        _require_index_sizes(manifest, index_bytes)
        self._manifest = manifest
        self._slot = slot
        self._store = slot.store
        self._digest = manifest.upload_digest
        self._keys = keys
        self._is_open = True
        self._files: dict[SegmentFile, IncomingFile] = {
            file: IncomingFile(file, announced, store=self._store, key=keys.file(self._digest, file))
            for file, announced in manifest.files.items()
            if file is not SegmentFile.LOG
        }
        log_key = keys.file(self._digest, SegmentFile.LOG)
        self._files[SegmentFile.LOG] = IncomingLog(manifest, store=self._store, key=log_key)
        self._marker = keys.upload_marker(self._digest, secrets.token_hex(8))
        marker = {"version": 1, "started_at_ms": slot.clock()}
        self._store.put_if_absent(self._marker, json.dumps(marker, separators=(",", ":")).encode("ascii"))

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
            self._discard_files()
            raise
        self._end()
        return CustomMetadataV1(self._digest).to_bytes()

    def abort(self) -> None:
        """Drops the upload; fine at any time, and without effect after `finish`.

        Files that are committed already stay: another session of the same content may be counting on them.
        """
        if self._is_open:
            for incoming in self._files.values():
                incoming.abort()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidField.of("chunk", "the upload is over: begin another one")

    def _end(self) -> None:
        self._is_open = False
        with suppress(StorageUnavailable, BackendThrottled):  # a marker that stays is removed with the segment
            self._store.delete(self._marker)

    def _discard_files(self) -> None:
        # Whatever holds the manifest's key keeps every session of this content from committing.
        with suppress(StorageUnavailable, BackendThrottled):
            for file in self._files:
                self._store.delete(self._keys.file(self._digest, file))


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
