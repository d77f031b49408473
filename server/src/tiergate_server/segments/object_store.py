"""The seam between the segment domain and whatever keeps its bytes.

Keys are `/`-separated paths of plain names. Objects appear whole or not at all and are never replaced: a key that is
taken stays as it is until it is deleted. Methods raise StorageUnavailable when the store is out of reach and
BackendThrottled when it asks for fewer calls (try again), and are safe to use from many threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self


class ObjectNotFound(Exception):
    """There is no object with this key."""


class PartialGone(Exception):
    """There is no partial upload with this handle (any more): it was ended, or somebody committed it."""


class InvalidKey(ValueError):
    """The key could not be kept apart from other keys, or could leave the store."""


class StoreRefused(Exception):
    """The store cannot be used as it is configured, and trying again will not help; the text says what to change."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing."""

    key: str
    size_bytes: int
    modified_at_ms: int


@dataclass(frozen=True, slots=True)
class PartialInfo:
    """A partial upload in a listing."""

    key: str
    handle: str
    begun_at_ms: int
    """Or later, where the store can tell when it was last written to."""


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


class PartialUpload(ABC):
    """A large object on its way in, which outlives this process and can be continued by any other.

    As a context it is closed at the end. Used by one thread at a time; several at once may write the same upload, since
    what they write is the same.
    """

    @property
    @abstractmethod
    def committed_bytes(self) -> int:
        """How much of the beginning was kept when this was opened: whole mebibytes, or everything."""

    @abstractmethod
    def write(self, data: bytes | memoryview) -> None:
        """Appends bytes behind the committed ones. Raises PartialGone, maybe later than for the bytes it lost."""

    @abstractmethod
    def commit(self) -> bool:
        """Makes the object visible and durable, then answers; all its bytes were written or committed.

        False: the key was taken, as with ObjectUpload. Raises PartialGone.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets go of it; what is committed stays. Fine at any time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PartialUploader(ABC):
    @abstractmethod
    def begin_partial(self, key: str, *, size_bytes: int) -> str | None:
        """The handle of a new partial upload of an object of this size, to be remembered by the caller.

        None: an object of this size is not worth it, and simply starts over: use `upload`. Raises InvalidKey.
        """

    @abstractmethod
    def open_partial(self, key: str, handle: str, *, size_bytes: int, block_crc32c: Sequence[int]) -> PartialUpload:
        """Continues a partial upload. Raises PartialGone.

        `block_crc32c` are the CRC-32C of each mebibyte of the object (the last one may be shorter), of what is
        committed and of what will be written.
        """

    @abstractmethod
    def end_partial(self, key: str, handle: str) -> None:
        """Drops a partial upload and what it holds; absent is fine."""

    @abstractmethod
    def list_partials(self, prefix: str) -> Iterator[PartialInfo]:
        """Uploads on their way whose key begins with `prefix` + "/" (all with prefix "").

        Partial ones, and, at least among all, what killed processes left of ordinary ones, which `end_partial` drops
        alike.
        """

    def last_written_ms(self, partial: PartialInfo) -> int:
        """When somebody was last at it: of one that has ended since, what the listing said."""
        return partial.begun_at_ms


class ObjectPresigner(ABC):
    @abstractmethod
    def presign(self, key: str, *, valid_s: int) -> str | None:
        """A URL that reads the object for so long without credentials, whether it exists or not; None: not offered."""


class ObjectFetcher(ABC):
    @abstractmethod
    def exists(self, key: str) -> bool:
        """Raises InvalidKey."""

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

    def read_into(self, place: memoryview) -> int:
        """Like `read`, to a place of the caller's, without a copy where the back end can; how many bytes it was."""
        data = self.read(len(place))
        place[: len(data)] = data
        return len(data)

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

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> None:
        """Like `delete` for each, in any order and with fewer calls; goes on after a failure, then raises it."""


class ObjectLister(ABC):
    @abstractmethod
    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key begins with `prefix` + "/" (all with prefix ""), ascending by key, those behind `after`.

        Never holds all of them. Uploads on their way are not listed.
        """


class ObjectStore(ObjectUploader, PartialUploader, ObjectFetcher, ObjectPresigner, ObjectDeleter, ObjectLister):
    """Everything that a back end offers; consumers hold the narrowest role they need."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of connections and threads. Nothing may be under way."""
