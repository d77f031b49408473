"""Objects in a bucket of S3, or of a store that speaks like it. It knows keys and bytes, nothing of segments.

S3 is durable when it answers, so a key that is taken holds a durable object, too. That a key is never replaced rests on
conditional writes (`If-None-Match: *`), which not every store honours: `check` finds out, at start or, if the store was
out of reach then, before the first write.

`False` from a write can also mean that an earlier attempt of the same write took the key, and its answer was lost.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.object_keys import KEY_BYTES, key_names
from tiergate_server.adapters.s3_client import S3Client
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_objects import S3Reader, S3Upload, storage_errors
from tiergate_server.adapters.s3_settings import S3Settings
from tiergate_server.segments.object_store import (
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    ObjectUpload,
    StoreRefused,
)

# No key begins with a dot, so a probe never meets an object.
_PROBES = ".probes"
_MOST_BYTES = 2**50
"""More than any object has."""


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
        with self._check_lock:
            if not self._is_checked:
                self._probe()
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

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(f"{self._name(prefix)}/", prefix)

    def close(self) -> None:
        self._senders.shutdown()
        self._client.close()

    def _name(self, key: str) -> str:
        key_names(key, key_bytes=KEY_BYTES - len(self._root.encode()))
        return self._root + key

    def _listed(self, name: str, prefix: str) -> Iterator[ObjectInfo]:
        with storage_errors(f"list {prefix!r}", place=self._settings.place):
            for listed in self._client.list(name):
                if not listed.key.endswith("/"):  # a directory that some tool has put there
                    yield ObjectInfo(listed.key.removeprefix(self._root), listed.size_bytes)

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

    def _probe(self) -> None:
        place = self._settings.place
        name = f"{self._root}{_PROBES}/{secrets.token_hex(16)}"
        with storage_errors("be checked", place=place):
            try:
                self._put_new(name, b"first")
                is_replaced = self._put_new(name, b"second")
            except S3Failure as failure:
                if failure.to_check is not None:
                    raise StoreRefused(
                        f"{place} cannot be used: {failure.code}, {failure.message.rstrip('.')}; {failure.to_check}"
                    ) from failure
                raise
            finally:
                with suppress(S3Failure):
                    self._client.delete(name)
        if is_replaced:
            raise StoreRefused(
                f"{place} ignores If-None-Match, so two copies of one segment could replace each other's manifest and "
                f"a cancelled copy could come back: use a store with conditional writes"
            )
