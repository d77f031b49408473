"""Objects in a bucket of S3, or of a store that speaks like it. It knows keys and bytes, nothing of segments.

S3 is durable when it answers, so a key that is taken holds a durable object, too. That a key is never replaced rests on
conditional writes (`If-None-Match: *`), which not every store honours: `check` finds out, at start or, if the store was
out of reach then, before the first write. Settings that renounce them make writes look first whether the key is taken.

`False` from a write can also mean that an earlier attempt of the same write took the key, and its answer was lost.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.object_keys import KEY_BYTES, is_key, key_names
from tiergate_server.adapters.s3_client import S3Client
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_objects import S3Reader, S3Upload, storage_errors
from tiergate_server.adapters.s3_partial import PartPlan, S3PartialHandle, S3PartialUpload
from tiergate_server.adapters.s3_probe import probe
from tiergate_server.adapters.s3_settings import S3Settings
from tiergate_server.segments.call_deadline import in_time
from tiergate_server.segments.object_store import (
    InvalidKey,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    ObjectUpload,
    PartialGone,
    PartialInfo,
    PartialUpload,
    StoreRefused,
)

# No key begins with a dot, so a probe never meets an object.
_PROBES = ".probes"
_MOST_BYTES = 2**50
"""More than any object has."""
# S3's own limits.
_DELETE_BATCH = 1000
_LONGEST_PRESIGNED_S = 7 * 24 * 3600


class S3Store(ObjectStore):
    """Objects below the settings' prefix. Making it connects to nothing. Raises StoreRefused."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        try:
            self._client = S3Client(settings)
        except S3Failure as failure:
            raise StoreRefused(f"{settings.place} cannot be used: {failure}") from failure
        self._senders = ThreadPoolExecutor(settings.senders, thread_name_prefix="s3-part")
        self._root = f"{settings.prefix}/" if settings.prefix else ""
        self._check_lock = threading.Lock()
        self._is_checked = False

    def check(self) -> None:
        """Raises StoreRefused when the bucket will not do, StorageUnavailable or BackendThrottled when it may later."""
        with in_time(self._check_lock):
            if not self._is_checked:
                name = f"{self._root}{_PROBES}/{secrets.token_hex(16)}"
                with storage_errors("be checked", place=self._settings.place):
                    probe(
                        self._client,
                        name,
                        place=self._settings.place,
                        needs_conditions=self._settings.conditional_writes,
                    )
                self._is_checked = True

    def upload(self, key: str) -> ObjectUpload:
        name = self._name(key)
        self._require_checked()
        return S3Upload(self._client, name, settings=self._settings, senders=self._senders, put_new=self._put_new)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        name = self._name(key)
        self._require_checked()
        with storage_errors(f"put {key!r}", place=self._settings.place):
            return self._put_new(name, data)

    def get(self, key: str) -> bytes:
        with self.open_range(key, offset=0, length=_MOST_BYTES) as reader:
            return reader.read(_MOST_BYTES)

    def open_range(self, key: str, *, offset: int, length: int) -> ObjectReader:
        return S3Reader(self._client, self._name(key), settings=self._settings, offset=offset, end=offset + length)

    def delete(self, key: str) -> None:
        name = self._name(key)
        with storage_errors(f"delete {key!r}", place=self._settings.place):
            try:
                self._client.delete(name)
            except S3Failure as failure:
                if not failure.is_absent_object:
                    raise

    def delete_many(self, keys: Iterable[str]) -> None:
        failures: list[Exception] = []
        remaining = iter(keys)
        while batch := list(islice(remaining, _DELETE_BATCH)):
            names = []
            for key in batch:
                try:
                    names.append(self._name(key))
                except InvalidKey as failure:
                    failures.append(failure)
            try:
                self._client.delete_batch(names)
            except S3Failure as failure:
                failures.append(failure.as_domain_error(f"delete {len(names)} objects", place=self._settings.place))
        if failures:
            raise failures[0]

    def exists(self, key: str) -> bool:
        name = self._name(key)
        with storage_errors(f"look for {key!r}", place=self._settings.place):
            return self._client.exists(name)

    def presign(self, key: str, *, valid_s: int) -> str | None:
        name = self._name(key)
        with storage_errors(f"presign {key!r}", place=self._settings.place):
            return self._client.presigned(name, valid_s=min(valid_s, _LONGEST_PRESIGNED_S))

    def begin_partial(self, key: str, *, size_bytes: int) -> str | None:
        name = self._name(key)
        if size_bytes <= self._settings.multipart_threshold_bytes:
            return None
        self._require_checked()
        with storage_errors(f"begin {key!r}", place=self._settings.place):
            upload_id = self._client.begin_parts(name)
        return S3PartialHandle(upload_id, self._settings.part_bytes_for(size_bytes)).to_text()

    def open_partial(self, key: str, handle: str, *, size_bytes: int, block_crc32c: Sequence[int]) -> PartialUpload:
        name = self._name(key)
        known = S3PartialHandle.from_text(handle)
        if known.part_bytes is None:
            raise PartialGone(f"the multipart upload of {key!r} cannot be continued: its handle is from a listing")
        return S3PartialUpload(
            self._client,
            name,
            known.upload_id,
            plan=PartPlan(size_bytes, known.part_bytes, block_crc32c),
            senders=self._senders,
            place=self._settings.place,
        )

    def end_partial(self, key: str, handle: str) -> None:
        name = self._name(key)
        with suppress(PartialGone), storage_errors(f"end the upload of {key!r}", place=self._settings.place):
            upload_id = S3PartialHandle.from_text(handle).upload_id
            try:
                self._client.end_parts(name, upload_id)
            except S3Failure as failure:
                if not failure.is_absent_upload:
                    raise

    def list_partials(self, prefix: str) -> Iterator[PartialInfo]:
        return self._listed_partials(self._directory(prefix), prefix)

    def last_written_ms(self, partial: PartialInfo) -> int:
        upload_id = S3PartialHandle.from_text(partial.handle).upload_id
        with storage_errors(f"look at the upload of {partial.key!r}", place=self._settings.place):
            try:
                parts = self._client.list_parts(self._name(partial.key), upload_id)
                return max((part.sent_at_ms for part in parts), default=partial.begun_at_ms)
            except S3Failure as failure:
                if not failure.is_absent_upload:
                    raise
                return partial.begun_at_ms

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._listed(self._directory(prefix), prefix, self._root + after if after else "")

    def close(self) -> None:
        self._senders.shutdown()
        self._client.close()

    def _name(self, key: str) -> str:
        key_names(key, key_bytes=KEY_BYTES - len(self._root.encode()))
        return self._root + key

    def _directory(self, prefix: str) -> str:
        return f"{self._name(prefix)}/" if prefix else self._root

    def _listed(self, name: str, prefix: str, after: str) -> Iterator[ObjectInfo]:
        with storage_errors(f"list {prefix!r}", place=self._settings.place):
            for listed in self._client.list(name, after=after):
                key = listed.key.removeprefix(self._root)
                if is_key(key):  # others are probes, or what some tool has put there
                    yield ObjectInfo(key, listed.size_bytes, listed.modified_at_ms)

    def _listed_partials(self, name: str, prefix: str) -> Iterator[PartialInfo]:
        with storage_errors(f"list uploads below {prefix!r}", place=self._settings.place):
            for listed in self._client.list_uploads(name):
                key = listed.key.removeprefix(self._root)
                if is_key(key):
                    yield PartialInfo(key, S3PartialHandle(listed.upload_id).to_text(), listed.begun_at_ms)

    def _put_new(self, name: str, data: bytes | bytearray) -> bool:
        for attempt in range(self._settings.max_attempts):
            try:
                self._client.put_new(name, data)
            except S3Failure as failure:
                if failure.is_taken_key:
                    return False
                is_last = attempt == self._settings.max_attempts - 1
                if not failure.is_conflict or is_last:
                    raise
                # Another writer was at it in the same instant: it has won, or the key is free again.
                if self._client.exists(name):
                    return False
            else:
                return True
        raise AssertionError("the last attempt answers or raises")

    def _require_checked(self) -> None:
        if not self._is_checked:
            try:
                self.check()
            except StoreRefused as refusal:
                raise StorageUnavailable(str(refusal), retry_after_ms=10_000) from refusal
