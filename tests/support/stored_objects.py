"""What a store really holds, reached behind everybody's back: to damage it, and to put it right again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from support.s3_server import Bucket
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata

MANIFEST = "manifest.json"


class StoredObjects(ABC):
    """The objects of a store, by key."""

    @abstractmethod
    def keys(self) -> list[str]: ...

    @abstractmethod
    def read(self, key: str) -> bytes: ...

    @abstractmethod
    def write(self, key: str, data: bytes) -> None: ...

    @abstractmethod
    def remove(self, key: str) -> None: ...

    def key_of(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile | None) -> str:
        """The key of a file of a segment, or of its manifest."""
        name = MANIFEST if file is None else file.value
        (key,) = (key for key in self.keys() if f"{metadata.segment_id}/" in key and key.endswith(f"/{name}"))
        return key

    def change(
        self, metadata: RemoteLogSegmentMetadata, file: SegmentFile | None, change: Callable[[bytearray], object]
    ) -> None:
        key = self.key_of(metadata, file)
        stored = bytearray(self.read(key))
        change(stored)
        self.write(key, bytes(stored))

    def flip(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile | None, *, position: int) -> None:
        """Turns a bit of a byte; negative positions count from the end."""

        def turn(stored: bytearray) -> None:
            stored[position] ^= 1 << position % 8

        self.change(metadata, file, turn)


class DirectoryObjects(StoredObjects):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keys(self) -> list[str]:
        return [str(path.relative_to(self._directory)) for path in self._directory.rglob("*") if path.is_file()]

    def read(self, key: str) -> bytes:
        return (self._directory / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        (self._directory / key).write_bytes(data)

    def remove(self, key: str) -> None:
        (self._directory / key).unlink()


class BucketObjects(StoredObjects):
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def keys(self) -> list[str]:
        return self._bucket.stored_keys()

    def read(self, key: str) -> bytes:
        content: bytes = self._bucket.client.get_object(Bucket=self._bucket.name, Key=key)["Body"].read()
        return content

    def write(self, key: str, data: bytes) -> None:
        self._bucket.client.put_object(Bucket=self._bucket.name, Key=key, Body=data)

    def remove(self, key: str) -> None:
        self._bucket.client.delete_object(Bucket=self._bucket.name, Key=key)
