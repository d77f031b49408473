"""One file of an upload on its way into the store: order, bounds and checksums of its bytes.

Which files an upload has, and when they are committed, is the session's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crc32c import crc32c as checksum_of

from tiergate_client.checksums import crc32c_appended
from tiergate_client.errors import InvalidField, OffsetOutOfRange, SentDataCorrupt
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_server.segments.object_store import ObjectUpload, ObjectUploader, PartialGone
from tiergate_server.segments.pending_upload import JoinedUpload


class IncomingFile:
    """Takes the bytes of one file in ascending order and passes them on to the store as they come."""

    def __init__(self, file: SegmentFile, announced: FileChecksum, *, store: ObjectUploader, key: str) -> None:
        self._file = file
        self._announced = announced
        self._store = store
        self._key = key
        self._upload: ObjectUpload | None = None
        self.received_bytes = 0
        self._crc32c = 0

    def accept(self, offset: int, data: bytes | memoryview, crc32c: int) -> None:
        """Takes a chunk whose checksum was found to be `crc32c`; what was received already is skipped."""
        size = self._announced.size_bytes
        if offset < 0:
            raise InvalidField.of("offset", f"{offset} is negative")
        if offset + len(data) > size:
            raise InvalidField.of(
                "data",
                f"a chunk of the {self._file.value} ends at {offset + len(data)}, but {size} bytes were announced",
            )
        if offset > self.received_bytes:
            raise OffsetOutOfRange(
                f"a chunk of the {self._file.value} begins at {offset}, but only {self.received_bytes} bytes were "
                f"received: continue there",
                details={"committed_bytes": str(self.received_bytes)},
            )
        received = self.received_bytes - offset
        if received >= len(data):
            return
        if received:
            data = memoryview(data)[received:]
            crc32c = checksum_of(data)
        self._append(data, crc32c)

    def verify(self) -> None:
        """Raises InvalidField unless all bytes are there, SentDataCorrupt unless they are those announced."""
        self._require_all_bytes()
        announced = self._announced
        if self._crc32c != announced.crc32c:
            raise SentDataCorrupt(
                f"the {self._file.value} has checksum {self._crc32c:08x}, but {announced.crc32c:08x} was announced: "
                f"send it again"
            )

    def commit(self) -> None:
        """Makes the verified file durable. When its key is taken, the same content is there: the key names it."""
        self._opened_upload().commit()

    def abort(self) -> None:
        if self._upload is not None:
            self._upload.abort()

    def _append(self, data: bytes | memoryview, crc32c: int) -> None:
        self.received_bytes += len(data)
        self._crc32c = crc32c_appended(self._crc32c, data, crc32c)
        self._opened_upload().write(data)

    def _require_all_bytes(self) -> None:
        size = self._announced.size_bytes
        if self.received_bytes < size:
            raise InvalidField.of(
                "finish", f"{size} bytes of the {self._file.value} were announced, {self.received_bytes} sent"
            )

    def _opened_upload(self) -> ObjectUpload:
        if self._upload is None:
            self._upload = self._store.upload(self._key)
        return self._upload


class IncomingLog(IncomingFile):
    """The log, which is passed on in whole blocks that match the announced checksums, behind those already kept."""

    def __init__(
        self,
        manifest: SegmentManifest,
        *,
        joined: JoinedUpload,
        store: ObjectUploader,
        key: str,
        require_stored: Callable[[], None],
    ) -> None:
        """`require_stored` raises unless the whole log is there, asked when the partial upload has gone."""
        super().__init__(SegmentFile.LOG, manifest.log, store=store, key=key)
        self._blocks = manifest.log_block_crc32c
        self._partial = joined.log
        self._is_stored = joined.is_log_stored
        self._require_stored = require_stored
        if self._is_stored:
            self.received_bytes = manifest.log.size_bytes
        elif self._partial is not None:
            self.received_bytes = self._partial.committed_bytes
        self._passed_on_bytes = self.received_bytes
        self._partial_block = bytearray()

    def verify(self) -> None:
        """Every block matched, and together they make the announced file: the session has seen to that."""
        self._require_all_bytes()

    def commit(self) -> None:
        if self._partial is not None and not self._is_stored:
            with self._others_may_finish():
                self._partial.commit()
        elif not self._is_stored:
            super().commit()

    def abort(self) -> None:
        """What is kept of a large log stays, to be continued."""
        if self._partial is not None:
            self._partial.close()
        super().abort()

    def _append(self, data: bytes | memoryview, crc32c: int) -> None:
        rest = memoryview(data)
        while rest:
            block_bytes = min(BLOCK_BYTES, self._announced.size_bytes - self._passed_on_bytes)
            missing_bytes = block_bytes - len(self._partial_block)
            part, rest = rest[:missing_bytes], rest[missing_bytes:]
            self.received_bytes += len(part)
            if len(part) == block_bytes:
                self._pass_on_block(part, crc32c if len(part) == len(data) else checksum_of(part))
                continue
            self._partial_block += part
            if len(part) == missing_bytes:
                block = bytes(self._partial_block)
                self._partial_block.clear()
                self._pass_on_block(block, checksum_of(block))

    def _pass_on_block(self, block: bytes | memoryview, crc32c: int) -> None:
        announced = self._blocks[self._passed_on_bytes // BLOCK_BYTES]
        if crc32c != announced:
            raise SentDataCorrupt(
                f"the log's block at {self._passed_on_bytes} has checksum {crc32c:08x}, but {announced:08x} was "
                f"announced: send it again"
            )
        if self._partial is None:
            self._opened_upload().write(block)
        elif not self._is_stored:
            with self._others_may_finish():
                self._partial.write(block)
        self._passed_on_bytes += len(block)

    @contextmanager
    def _others_may_finish(self) -> Iterator[None]:
        """Another session of the same content may have stored the log meanwhile: then there is nothing left to do."""
        try:
            yield
        except PartialGone:
            self._require_stored()
            self._is_stored = True
