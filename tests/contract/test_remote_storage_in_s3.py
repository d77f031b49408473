"""The storage contract over a bucket: in process, with the smallest parts, and through a plane of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from contract.remote_storage_contract import RemoteStorageContract

from support.planes import Planes, running_planes
from support.s3_server import Bucket, S3Server, s3_environment
from tiergate_client import connect
from tiergate_client.interfaces import RemoteStorage
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.segment_storage import SegmentStorage


@pytest.fixture(scope="module")
def shared_bucket(s3: S3Server) -> Iterator[Bucket]:
    """One for all tests here, since the SDK and a plane take their time to start: segments have ids of their own."""
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        bucket = s3.new_bucket()
        yield bucket
        assert bucket.unfinished_uploads() == []
        assert not [key for key in bucket.stored_keys() if ".probes" in key]


@pytest.fixture(scope="module")
def store(shared_bucket: Bucket) -> Iterator[S3Store]:
    with closing(S3Store(shared_bucket.settings(prefix="in-process", multipart_threshold_bytes=0))) as store:
        yield store


@pytest.fixture(scope="module")
def planes_on_s3(shared_bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(tmp_path_factory.mktemp("planes"), **shared_bucket.plane_settings()) as planes:
        yield planes


class TestSegmentStorageInS3(RemoteStorageContract):
    """Every file goes in parts."""

    gives_urls = True

    @pytest.fixture
    def storage(self, store: S3Store) -> RemoteStorage:
        return SegmentStorage(store)


class TestStorageOnS3OverTheWire(RemoteStorageContract):
    gives_urls = True

    @pytest.fixture
    def storage(self, planes_on_s3: Planes) -> Iterator[RemoteStorage]:
        with connect(planes_on_s3.target, timeout_s=20) as tiergate:
            yield tiergate.storage


class TestStorageReadPastTheService(RemoteStorageContract):
    """Never through it: who reads directly and may not fall back fails instead."""

    gives_urls = True

    @pytest.fixture
    def storage(self, planes_on_s3: Planes) -> Iterator[RemoteStorage]:
        with connect(planes_on_s3.target, timeout_s=20, access="direct") as tiergate:
            yield tiergate.storage


@pytest.mark.nightly
class TestStorageReadAsItIsBest(RemoteStorageContract):
    """Where the store is in reach, the same as past the service; what differs is in test_direct_fallback."""

    gives_urls = True

    @pytest.fixture
    def storage(self, planes_on_s3: Planes) -> Iterator[RemoteStorage]:
        with connect(planes_on_s3.target, timeout_s=20, access="auto") as tiergate:
            yield tiergate.storage
