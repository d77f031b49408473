"""A service on a bucket whose URLs lead to a proxy: the way past the service can break while the service works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cutting_proxy import CuttingProxy, cutting_proxy
from support.planes import Planes, running_planes
from support.s3_server import Bucket
from support.segments import make_data, make_metadata
from tiergate_client import LogSegmentData, RemoteLogSegmentMetadata, SegmentFile, SegmentStream, connect
from tiergate_client._storage import GrpcStorage

MIB = 1024 * 1024
LOG_BYTES = 12 * MIB + 77
UNCUT = 2**40


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment in a bucket, and what it was made of."""

    bucket: Bucket
    metadata: RemoteLogSegmentMetadata
    data: LogSegmentData

    @property
    def log(self) -> bytes:
        assert isinstance(self.data.log, bytes)
        return self.data.log

    def key_of(self, file: SegmentFile) -> str:
        marks = (f"/{self.metadata.segment_id}/", f"/{file.value}")
        (key,) = (key for key in self.bucket.stored_keys() if marks[0] in key and key.endswith(marks[1]))
        return key

    def change(self, file: SegmentFile, change: Callable[[bytearray], object]) -> None:
        """Changes what is stored of a file, behind everybody's back."""
        place = {"Bucket": self.bucket.name, "Key": self.key_of(file)}
        stored = bytearray(self.bucket.client.get_object(**place)["Body"].read())
        change(stored)
        self.bucket.client.put_object(**place, Body=bytes(stored))

    def remove(self, file: SegmentFile) -> None:
        self.bucket.client.delete_object(Bucket=self.bucket.name, Key=self.key_of(file))


@dataclass(frozen=True, slots=True)
class PassableService:
    planes: Planes
    bucket: Bucket
    proxy: CuttingProxy

    def stored(self, *, log_bytes: int = LOG_BYTES) -> StoredSegment:
        """A new segment."""
        metadata, data = make_metadata(), make_data(log_bytes=log_bytes, with_txn_index=True)
        with connect(self.planes.target) as writer:
            writer.storage.copy_segment(metadata, data)
        return StoredSegment(self.bucket, metadata, data)


@contextmanager
def passable_service(
    directory: Path, bucket: Bucket, *, cut_after_bytes: int = UNCUT, public_endpoint_url: str = "", **settings: str
) -> Iterator[PassableService]:
    """`cut_after_bytes` ends each connection of those that read past the service."""
    with cutting_proxy(bucket.endpoint_url, cut_after_bytes=cut_after_bytes) as proxy:
        public = {"segments__s3__public_endpoint_url": public_endpoint_url or proxy.endpoint_url}
        with running_planes(directory, **bucket.plane_settings(), **public, **settings) as planes:
            yield PassableService(planes, bucket, proxy)


def recorded_service_reads(patch: pytest.MonkeyPatch) -> list[int]:
    """The offsets at which logs are asked for through the service from now on."""
    offsets: list[int] = []
    fetch_segment = GrpcStorage.fetch_segment

    def fetched(self: GrpcStorage, metadata: RemoteLogSegmentMetadata, **asked: Any) -> SegmentStream:
        offsets.append(asked["offset"])
        return fetch_segment(self, metadata, **asked)

    patch.setattr(GrpcStorage, "fetch_segment", fetched)
    return offsets
