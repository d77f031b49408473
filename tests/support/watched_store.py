"""A store that tells of every operation before it is done, so that a test can squeeze something in or fail it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tiergate_server.segments.object_store import (
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    ObjectUpload,
    PartialInfo,
    PartialUpload,
)

Answer = TypeVar("Answer")


class _Listing(list[Answer]):
    """Made in one step; what of it is seen is told as it is taken."""

    def __repr__(self) -> str:
        return "a listing"


class WatchedStore(ObjectStore):
    """Calls `before` with the number of each operation, before it is done, and `after` with its answer or failure."""

    def __init__(
        self, store: ObjectStore, before: Callable[[int], None], *, after: Callable[[object], None] = lambda _: None
    ) -> None:
        self._store = store
        self._before = before
        self._after = after
        self.operations = 0

    def _step(self, operation: Callable[[], Answer]) -> Answer:
        number, self.operations = self.operations, self.operations + 1
        self._before(number)
        try:
            answer = operation()
        except Exception as failure:
            self._after(repr(failure))
            raise
        self._after(answer)
        return answer

    def _shown(self, listing: _Listing[Answer]) -> Iterator[Answer]:
        for listed in listing:
            self._after(listed)
            yield listed
        self._after("the end")

    def _committed(self, answer: bool) -> bool:
        """What who commits an upload gets to see."""
        return answer

    def upload(self, key: str) -> ObjectUpload:
        return _WatchedUpload(self._store.upload(key), self)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._step(lambda: self._store.put_if_absent(key, data))

    def begin_partial(self, key: str, *, size_bytes: int) -> str | None:
        return self._step(lambda: self._store.begin_partial(key, size_bytes=size_bytes))

    def open_partial(self, key: str, handle: str, *, size_bytes: int, block_crc32c: Sequence[int]) -> PartialUpload:
        def opened() -> PartialUpload:
            partial = self._store.open_partial(key, handle, size_bytes=size_bytes, block_crc32c=block_crc32c)
            return _WatchedPartial(partial, self)

        return self._step(opened)

    def end_partial(self, key: str, handle: str) -> None:
        self._step(lambda: self._store.end_partial(key, handle))

    def list_partials(self, prefix: str) -> Iterator[PartialInfo]:
        return self._shown(self._step(lambda: _Listing(self._store.list_partials(prefix))))

    def presign(self, key: str, *, valid_s: int) -> str | None:
        return self._store.presign(key, valid_s=valid_s)

    def exists(self, key: str) -> bool:
        return self._step(lambda: self._store.exists(key))

    def get(self, key: str) -> bytes:
        return self._step(lambda: self._store.get(key))

    def open_range(self, key: str, *, offset: int, length: int) -> ObjectReader:
        return self._step(lambda: self._store.open_range(key, offset=offset, length=length))

    def delete(self, key: str) -> None:
        self._step(lambda: self._store.delete(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._shown(self._step(lambda: _Listing(self._store.list(prefix, after=after))))

    def close(self) -> None:
        self._store.close()


class _WatchedUpload(ObjectUpload):
    """Writing is no operation: nobody sees what is not committed."""

    def __init__(self, upload: ObjectUpload, watched: WatchedStore) -> None:
        self._upload = upload
        self._watched = watched

    def write(self, data: bytes | memoryview) -> None:
        self._upload.write(data)

    def commit(self) -> bool:
        return self._watched._step(lambda: self._watched._committed(self._upload.commit()))

    def abort(self) -> None:
        self._upload.abort()


class _WatchedPartial(PartialUpload):
    def __init__(self, partial: PartialUpload, watched: WatchedStore) -> None:
        self._partial = partial
        self._watched = watched

    def __repr__(self) -> str:
        return f"a partial upload with {self.committed_bytes} bytes"

    @property
    def committed_bytes(self) -> int:
        return self._partial.committed_bytes

    def write(self, data: bytes | memoryview) -> None:
        self._watched._step(lambda: self._partial.write(data))

    def commit(self) -> bool:
        return self._watched._step(lambda: self._watched._committed(self._partial.commit()))

    def close(self) -> None:
        self._partial.close()
