"""A multipart upload that any process continues: what is in it, and how the rest gets there. Keys are `s3_store`'s.

A part is sent while it is received, so a process that is killed loses what was on its way and no more; memory is the
part on its way and a window of the next one. Everything about a part is known before its bytes: its size and, from the
checksums of the blocks, its CRC-32C, by which parts that are there are recognised and S3 refuses others.
"""

from __future__ import annotations

import contextvars
import json
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from tiergate_client.checksums import crc32c_of_blocks
from tiergate_client.errors import StorageUnavailable
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.s3_client import S3Client, SentPart, checksum_text
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_objects import storage_errors
from tiergate_server.adapters.s3_part_body import PartBody
from tiergate_server.segments.object_store import PartialGone, PartialUpload

_HANDLE_VERSION = 1
_RETRY_AFTER_MS = 1000
# Bytes of the next part that are received while the answer to the last one is awaited, and the most that wait for the
# socket: two chunks of the size that clients send, so that neither side waits for the other all the time.
_WINDOW_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class S3PartialHandle:
    """Which multipart upload, and the size of its parts; None of one that was only seen in a listing."""

    upload_id: str
    part_bytes: int | None = None

    def to_text(self) -> str:
        known = {"v": _HANDLE_VERSION, "id": self.upload_id, "part_bytes": self.part_bytes}
        return json.dumps({name: value for name, value in known.items() if value is not None}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> S3PartialHandle:
        """Raises PartialGone when it is no handle of ours, StorageUnavailable when it is one of a newer release."""
        try:
            known = json.loads(text)
            version, upload_id, part_bytes = known["v"], known["id"], known.get("part_bytes")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise PartialGone(f"{text[:200]!r} is no handle of a multipart upload: begin another one") from None
        if version != _HANDLE_VERSION:
            raise StorageUnavailable(
                f"the multipart upload has a handle of version {version}: continue it where that release runs",
                retry_after_ms=_RETRY_AFTER_MS,
            )
        return cls(upload_id, part_bytes)


@dataclass(frozen=True, slots=True)
class PartPlan:
    """How an object is cut into parts, which are counted from 1."""

    size_bytes: int
    part_bytes: int
    block_crc32c: Sequence[int]

    @property
    def count(self) -> int:
        return -(-self.size_bytes // self.part_bytes)

    def size_of(self, number: int) -> int:
        return min(self.part_bytes, self.size_bytes - (number - 1) * self.part_bytes)

    def checksum_of(self, number: int) -> str:
        blocks_per_part = self.part_bytes // BLOCK_BYTES
        blocks = self.block_crc32c[(number - 1) * blocks_per_part : number * blocks_per_part]
        return checksum_text(crc32c_of_blocks(blocks, size_bytes=self.size_of(number)))


class S3PartialUpload(PartialUpload):
    """Opening it asks what is there. Raises PartialGone."""

    def __init__(
        self, client: S3Client, key: str, upload_id: str, *, plan: PartPlan, senders: Executor, place: str
    ) -> None:
        self._client = client
        self._key = key
        self._upload_id = upload_id
        self._plan = plan
        self._senders = senders
        self._place = place
        with self._errors("continue"):
            self._parts = self._kept_parts()
        self._committed_bytes = sum(plan.size_of(part.number) for part in self._parts)
        self._received_bytes = self._committed_bytes
        self._is_open = True
        self._filling: PartBody | None = None
        # What follows is shared with the thread that sends.
        self._lock = threading.Lock()
        self._unsent: deque[tuple[int, PartBody]] = deque()
        self._sending: Future[None] | None = None
        self._failure: Exception | None = None

    @property
    def committed_bytes(self) -> int:
        return self._committed_bytes

    def write(self, data: bytes | memoryview) -> None:
        self._require_open()
        rest = memoryview(data)
        if self._received_bytes + len(rest) > self._plan.size_bytes:
            raise ValueError(f"{self._key!r} has {self._plan.size_bytes} bytes: nothing can be appended behind them")
        while rest:
            body = self._filling or self._next_part()
            piece = rest[: body.missing_bytes]
            body.append(piece)
            self._raise_failure("write")
            self._received_bytes += len(piece)
            if not body.missing_bytes:
                self._filling = None
            rest = rest[len(piece) :]

    def commit(self) -> bool:
        self._require_open()
        if self._received_bytes != self._plan.size_bytes:
            raise ValueError(
                f"{self._received_bytes} of {self._plan.size_bytes} bytes of {self._key!r} are there: write the others"
            )
        self._finish_sending()
        self._raise_failure("commit")
        self._is_open = False
        with self._errors("commit"):
            return self._complete()

    def close(self) -> None:
        self._is_open = False
        if self._filling is not None:
            self._filling.drop()
            self._filling = None
        # A part that is whole is answered soon, and then it is there for whoever continues.
        self._finish_sending()
        self._failure = None  # its traceback holds connections

    def _kept_parts(self) -> list[SentPart]:
        """The run of parts from the first on that are as they shall be."""
        kept: list[SentPart] = []
        try:
            for number, part in enumerate(self._client.list_parts(self._key, self._upload_id), start=1):
                if part.number != number or number > self._plan.count or part.size_bytes != self._plan.size_of(number):
                    break
                checksum = self._plan.checksum_of(number)
                if part.checksum not in {None, checksum}:
                    break
                kept.append(SentPart(number, part.etag, checksum))
        except S3Failure as failure:
            if failure.is_absent_upload:
                raise self._gone() from failure
            raise
        return kept

    def _next_part(self) -> PartBody:
        number = self._received_bytes // self._plan.part_bytes + 1
        self._filling = body = PartBody(self._plan.size_of(number), window_bytes=_WINDOW_BYTES)
        with self._lock:
            self._unsent.append((number, body))
            if self._sending is None and self._failure is None:
                self._sending = self._senders.submit(contextvars.copy_context().run, self._send_parts)
        return body

    def _send_parts(self) -> None:
        """Sends what there is, one after the other, in a thread of its own."""
        while True:
            with self._lock:
                if not self._unsent:
                    self._sending = None
                    return
                number, body = self._unsent.popleft()
            try:
                checksum = self._plan.checksum_of(number)
                self._parts.append(self._client.stream_part(self._key, self._upload_id, number, body, checksum))
            except Exception as failure:  # noqa: BLE001 (raised where it can be heard: in the thread that writes)
                with self._lock:
                    self._failure = failure
                    self._sending = None
                    for dropped in (body, *(unsent for _, unsent in self._unsent)):
                        dropped.drop()
                    self._unsent.clear()
                return

    def _finish_sending(self) -> None:
        with self._lock:
            sending = self._sending
        if sending is not None:
            wait([sending])

    def _raise_failure(self, verb: str) -> None:
        if self._failure is None:
            return
        self._is_open = False  # what was in this part is gone: nothing may be appended behind it
        with self._errors(verb):
            if isinstance(self._failure, S3Failure) and self._failure.is_absent_upload:
                raise self._gone() from self._failure
            raise self._failure

    def _complete(self) -> bool:
        try:
            self._complete_with_present_parts()
        except S3Failure as failure:
            if not failure.is_taken_key and not failure.is_conflict and not failure.is_absent_upload:
                raise
            # Another writer was at it in the same instant, or an attempt whose answer was lost succeeded.
            if not failure.is_taken_key and not self._client.exists(self._key):
                raise self._gone() from failure
            with suppress(S3Failure):  # nothing will become of these parts; what stays behind is listed
                self._client.end_parts(self._key, self._upload_id)
            return False
        return True

    def _complete_with_present_parts(self) -> None:
        try:
            self._client.complete_new(self._key, self._upload_id, self._parts)
        except S3Failure as failure:
            if not failure.is_stale_part:
                raise
            # Another writer sent the same part once more, and the store gave it another tag.
            self._parts = self._kept_parts()
            if len(self._parts) != self._plan.count:
                raise
            self._client.complete_new(self._key, self._upload_id, self._parts)

    def _gone(self) -> PartialGone:
        return PartialGone(
            f"there is no multipart upload of {self._key!r} with this handle any more: begin another one"
        )

    def _require_open(self) -> None:
        if not self._is_open:
            raise ValueError(f"the upload of {self._key!r} is over: open it again")

    def _errors(self, verb: str) -> AbstractContextManager[None]:
        return storage_errors(f"{verb} {self._key!r}", place=self._place)
