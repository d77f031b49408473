"""Damage in directories and in a bucket, seen in process and over the wire, with caches on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from contract.stored_damage_contract import StoredDamageContract

from support.planes import Planes, running_planes
from support.s3_server import Bucket, S3Server, s3_environment
from support.stored_objects import BucketObjects, DirectoryObjects, StoredObjects
from tiergate_client import connect
from tiergate_client.interfaces import RemoteStorage
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.segment_cache import SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage

CACHE_BYTES = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def own_planes(directory: Path) -> Iterator[Planes]:
    with running_planes(directory) as planes:
        yield planes


@pytest.fixture(scope="module")
def own_bucket(s3: S3Server) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        yield s3.new_bucket()


@pytest.fixture(scope="module")
def planes_on_s3(own_bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(tmp_path_factory.mktemp("planes"), **own_bucket.plane_settings()) as planes:
        yield planes


class TestDamageInDirectories(StoredDamageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> RemoteStorage:
        return SegmentStorage(FilesystemStore(tmp_path), cache=SegmentCache(CACHE_BYTES))

    @pytest.fixture
    def objects(self, tmp_path: Path) -> StoredObjects:
        return DirectoryObjects(tmp_path)


class TestDamageInDirectoriesOverTheWire(StoredDamageContract):
    @pytest.fixture
    def storage(self, own_planes: Planes) -> Iterator[RemoteStorage]:
        with connect(own_planes.target, timeout_s=20) as tiergate:
            yield tiergate.storage

    @pytest.fixture
    def objects(self, directory: Path) -> StoredObjects:
        return DirectoryObjects(directory / "segments")


class TestDamageInABucket(StoredDamageContract):
    @pytest.fixture
    def storage(self, own_bucket: Bucket) -> Iterator[RemoteStorage]:
        with closing(S3Store(own_bucket.settings(prefix="in-process"))) as store:
            yield SegmentStorage(store, cache=SegmentCache(CACHE_BYTES))

    @pytest.fixture
    def objects(self, own_bucket: Bucket) -> StoredObjects:
        return BucketObjects(own_bucket)


class TestDamageInABucketOverTheWire(StoredDamageContract):
    @pytest.fixture
    def storage(self, planes_on_s3: Planes) -> Iterator[RemoteStorage]:
        with connect(planes_on_s3.target, timeout_s=20) as tiergate:
            yield tiergate.storage

    @pytest.fixture
    def objects(self, own_bucket: Bucket) -> StoredObjects:
        return BucketObjects(own_bucket)
