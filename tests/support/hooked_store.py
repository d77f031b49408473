"""A store that counts what is read from it, and lets a test act or fail at a chosen moment of a read or a delete."""

from __future__ import annotations

from collections.abc import Callable

from support.watched_store import WatchedStore
from tiergate_client.errors import StorageUnavailable
from tiergate_server.segments.object_store import ObjectReader, ObjectStore


class HookedStore(WatchedStore):
    """Each hook is called once, and gone before it is."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store, lambda _: None)
        self.reads = 0
        self.before_next_read: Callable[[], None] | None = None
        self.after_next_get: Callable[[], None] | None = None
        self.fail_after_deletes: int | None = None

    def get(self, key: str) -> bytes:
        self._begin_read()
        data = super().get(key)
        hook, self.after_next_get = self.after_next_get, None
        if hook is not None:
            hook()
        return data

    def open_range(self, key: str, *, offset: int, length: int) -> ObjectReader:
        self._begin_read()
        return super().open_range(key, offset=offset, length=length)

    def delete(self, key: str) -> None:
        super().delete(key)
        if self.fail_after_deletes is not None:
            self.fail_after_deletes -= 1
            if self.fail_after_deletes <= 0:
                raise StorageUnavailable("the store went away", retry_after_ms=1)

    def _begin_read(self) -> None:
        self.reads += 1
        hook, self.before_next_read = self.before_next_read, None
        if hook is not None:
            hook()
