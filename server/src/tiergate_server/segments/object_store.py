"""The seam between the segment domain and whatever keeps its bytes.

Keys are `/`-separated paths of plain names. Objects appear whole or not at all and are never replaced: a key that is
taken stays as it is until it is deleted. Methods raise StorageUnavailable when the store is out of reach and
BackendThrottled when it asks for fewer calls (try again), and are safe to use from many threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self


class ObjectNotFound(Exception):
    """There is no object with this key."""


class InvalidKey(ValueError):
    """The key could not be kept apart from other keys, or could leave the store."""


class StoreRefused(Exception):
    """The store cannot be used as it is configured, and trying again will not help; the text says what to change."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing."""

    key: str
    size_bytes: int


class ObjectUpload(ABC):
    """An object on its way in. As a context it is aborted unless it was committed. Used by one thread at a time."""

    @abstractmethod
    def write(self, data: bytes | memoryview) -> None:
        """Appends bytes; they are not visible yet."""

    @abstractmethod
    def commit(self) -> bool:
        """Makes the object visible and durable, then answers.

        False: the key was taken, and stays as it was; the object that took it is durable, too, when this answers.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drops what was written; fine at any time, and without effect after commit."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class ObjectUploader(ABC):
    @abstractmethod
    def upload(self, key: str) -> ObjectUpload:
        """Begins an object of any size. Raises InvalidKey."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Stores a small object, durable when it answers.

        False: the key was taken, and stays as it was; the object that took it is durable, too, when this answers.
        """


class ObjectFetcher(ABC):
    @abstractmethod
    def get(self, key: str) -> bytes:
        """A whole small object. Raises ObjectNotFound, InvalidKey."""

    @abstractmethod
    def open_range(self, key: str, *, offset: int, length: int) -> ObjectReader:
        """Bytes [offset, offset + length) of an object, fewer where it ends. Raises ObjectNotFound, InvalidKey."""


class ObjectReader(ABC):
    """Bytes of an object on their way out. The caller closes it."""

    @abstractmethod
    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end of the range or of the object."""

    @abstractmethod
    def close(self) -> None:
        """Releases what is behind it; a second time is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ObjectDeleter(ABC):
    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes an object, durably when it answers; absent is fine. Raises InvalidKey."""


class ObjectLister(ABC):
    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix` + "/", in no particular order. Uploads on their way are not listed."""


class ObjectStore(ObjectUploader, ObjectFetcher, ObjectDeleter, ObjectLister):
    """Everything that a back end offers; consumers hold the narrowest role they need."""
