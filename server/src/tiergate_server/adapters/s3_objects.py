"""One object on its way to or from S3. How keys are named and checked is `s3_store`'s.

Memory of an upload: the part that is being filled and the one that is being sent.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress

from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.s3_client import S3Body, S3Client, SentPart
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_settings import MOST_PARTS, S3Settings
from tiergate_server.segments.call_deadline import remaining_s
from tiergate_server.segments.object_store import ObjectNotFound, ObjectReader, ObjectUpload

PutNew = Callable[[str, bytes | bytearray], bool]


@contextmanager
def storage_errors(action: str, *, place: str) -> Iterator[None]:
    """S3's complaints become the domain's; `action` completes the sentence 'the object store cannot'."""
    try:
        yield
    except S3Failure as failure:
        raise failure.as_domain_error(action, place=place) from failure


class S3Upload(ObjectUpload):
    """Buffers up to the threshold and puts that in one request; what grows beyond goes in parts as they fill."""

    def __init__(self, client: S3Client, key: str, *, settings: S3Settings, senders: Executor, put_new: PutNew) -> None:
        self._client = client
        self._key = key
        self._settings = settings
        self._senders = senders
        self._put_new = put_new
        self._is_open = True
        self._buffer = bytearray()
        self._upload_id: str | None = None
        self._sending: Future[SentPart] | None = None
        self._parts: list[SentPart] = []

    def write(self, data: bytes | memoryview) -> None:
        self._require_open()
        with self._errors("write"):
            if self._upload_id is None and len(self._buffer) + len(data) > self._settings.multipart_threshold_bytes:
                self._upload_id = self._client.begin_parts(self._key)
                buffered, self._buffer = self._buffer, bytearray()
                self._fill_parts(memoryview(buffered))
            self._fill_parts(memoryview(data))

    def commit(self) -> bool:
        self._require_open()
        with self._errors("commit"):
            if self._upload_id is None:
                is_new = self._put_new(self._key, self._buffer)
            else:
                if self._buffer:
                    self._send()
                self._finish_sending()
                is_new = self._complete(self._upload_id)
        self.abort()
        return is_new

    def abort(self) -> None:
        self._is_open = False
        self._buffer = bytearray()
        upload_id, self._upload_id = self._upload_id, None
        # A part that arrives after the upload was ended could stay: wait for it first.
        with suppress(S3Failure):
            self._finish_sending()
        if upload_id is not None:
            with suppress(S3Failure):  # what stays behind is invisible
                self._client.end_parts(self._key, upload_id)

    def _fill_parts(self, data: memoryview) -> None:
        while data:
            missing_bytes = len(data)
            if self._upload_id is not None:
                missing_bytes = self._settings.size_of_part(self._next_number) - len(self._buffer)
            self._buffer += data[:missing_bytes]
            if len(data) >= missing_bytes and self._upload_id is not None:
                self._send()
            data = data[missing_bytes:]

    @property
    def _next_number(self) -> int:
        return len(self._parts) + (self._sending is not None) + 1

    def _send(self) -> None:
        self._finish_sending()
        number = self._next_number
        if number > MOST_PARTS:
            raise S3Failure("EntityTooLarge", 0, "the object is larger than S3 takes", "UploadPart")
        part, self._buffer = self._buffer, bytearray()
        in_context = contextvars.copy_context().run
        self._sending = self._senders.submit(
            in_context, self._client.send_part, self._key, self._upload_id or "", number, part
        )

    def _finish_sending(self) -> None:
        if self._sending is not None:
            sending, self._sending = self._sending, None
            try:
                self._parts.append(sending.result())
            except S3Failure:
                self._is_open = False  # what was in this part is gone: nothing may be appended behind it
                raise

    def _complete(self, upload_id: str) -> bool:
        try:
            self._client.complete_new(self._key, upload_id, self._parts)
        except S3Failure as failure:
            if failure.is_taken_key:
                return False
            # Another writer was at it in the same instant, or an attempt whose answer was lost succeeded.
            if (failure.is_conflict or failure.is_absent_upload) and self._client.exists(self._key):
                return False
            raise
        self._upload_id = None
        return True

    def _require_open(self) -> None:
        if not self._is_open:
            raise ValueError(f"the upload of {self._key!r} is over: begin another one")

    def _errors(self, verb: str) -> AbstractContextManager[None]:
        return storage_errors(f"{verb} {self._key!r}", place=self._settings.place)


class S3Reader(ObjectReader):
    """Reads [offset, end) of an object, and asks again for the rest when the answer breaks off."""

    def __init__(self, client: S3Client, key: str, *, settings: S3Settings, offset: int, end: int) -> None:
        self._client = client
        self._key = key
        self._settings = settings
        self._offset = offset
        self._end = end
        self._is_open = True
        self._body: S3Body | None = None
        self._etag: str | None = None
        with storage_errors(f"read {key!r}", place=settings.place):
            self._open_first()

    def read(self, size: int) -> bytes:
        data = bytearray(min(size, self._end - self._offset))
        self.read_into(memoryview(data))
        return bytes(data)

    def read_into(self, place: memoryview) -> int:
        if not self._is_open:
            raise ValueError(f"the reader of {self._key!r} is closed: open another one")
        rest = place[: self._end - self._offset]
        wanted_bytes = len(rest)
        failed_attempts = 0
        while rest:
            body = self._body or self._reopened()
            try:
                read_bytes = body.read_into(rest)
                if not read_bytes:
                    raise S3Failure("IncompleteBody", 0, "the answer ended before its last byte", "GetObject")  # noqa: TRY301
            except S3Failure as failure:
                self._close_body()
                failed_attempts += 1
                if failed_attempts >= self._settings.max_attempts or remaining_s() == 0:
                    raise failure.as_domain_error(f"read {self._key!r}", place=self._settings.place) from failure
                continue
            failed_attempts = 0
            self._offset += read_bytes
            rest = rest[read_bytes:]
        return wanted_bytes

    def close(self) -> None:
        self._is_open = False
        self._close_body()

    def _open_first(self) -> None:
        try:
            if self._offset >= self._end:
                if not self._client.exists(self._key):
                    raise ObjectNotFound(f"there is no object {self._key!r}")
                return
            self._body = self._client.open(self._key, first=self._offset, end=self._end)
        except S3Failure as failure:
            if failure.is_absent_object:
                raise ObjectNotFound(f"there is no object {self._key!r}") from None
            if not failure.is_beyond_the_end:
                raise
            self._end = self._offset
            return
        self._etag = self._body.etag
        self._end = self._offset + self._body.length

    def _reopened(self) -> S3Body:
        """The rest of the same object. The client has tried often enough when this fails."""
        with storage_errors(f"read {self._key!r}", place=self._settings.place):
            try:
                self._body = self._client.open(self._key, first=self._offset, end=self._end, etag=self._etag)
            except S3Failure as failure:
                if failure.is_absent_object or failure.is_taken_key:
                    raise StorageUnavailable(
                        f"{self._key!r} was deleted while it was read: look for it again", retry_after_ms=0
                    ) from failure
                raise
        return self._body

    def _close_body(self) -> None:
        if self._body is not None:
            body, self._body = self._body, None
            body.close()
