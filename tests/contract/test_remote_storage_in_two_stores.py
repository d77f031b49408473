"""The storage contract over a plane with a directory and a bucket, and what holds of several stores alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import pytest
from contract.remote_storage_contract import RemoteStorageContract

from support.planes import PlaneProcess
from support.s3_server import Bucket, S3Server, s3_environment
from support.segments import breaking, make_data, make_metadata, read_back
from support.waiting import wait_until
from support.wire import channel_to, refused
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client import connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import SegmentNotFound, StorageUnavailable
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.segment_storage import SegmentStorage

DATA = make_data()
LARGE = make_data(log_bytes=12 * BLOCK_BYTES + 5)


@dataclass(frozen=True)
class TwoStores:
    """A directory and a bucket, and planes that use them as a test says."""

    directory: Path
    bucket: Bucket
    names: tuple[str, ...] = ("hot", "cold")
    topic_stores: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def storage(self, *, default: str) -> Iterator[RemoteStorage]:
        with (
            self.plane(default=default) as address,
            connect("ipv4:127.0.0.1:1", segments=address, timeout_s=20) as tiergate,
        ):
            yield tiergate.storage

    @contextmanager
    def plane(self, *, default: str) -> Iterator[str]:
        places = {"hot": (self.directory / "hot").as_uri(), "cold": f"s3://{self.bucket.name}/cold"}
        settings = {
            "segments.store": json.dumps({name: places[name] for name in self.names}),
            "segments.default_store": default,
            "segments.topic_stores": json.dumps(self.topic_stores),
            "segments.s3.endpoint_url": self.bucket.endpoint_url,
            "segments.listen": "127.0.0.1:0",
            "segments.metrics": "",
        }
        plane = PlaneProcess("segments", data_directory=self.directory / "data", settings=settings)
        plane.start()
        try:
            yield plane.address
        finally:
            plane.stop()

    @contextmanager
    def opened(self) -> Iterator[dict[str, ObjectStore]]:
        """Both, past every plane."""
        cold = S3Store(self.bucket.settings(prefix="cold"))
        with closing(FilesystemStore(self.directory / "hot")) as hot, closing(cold):
            yield {"hot": hot, "cold": cold}


@pytest.fixture
def stores(tmp_path: Path, bucket: Bucket) -> TwoStores:
    return TwoStores(tmp_path, bucket)


@pytest.fixture(scope="module")
def shared_stores(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoStores]:
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        yield TwoStores(tmp_path_factory.mktemp("stores"), s3.new_bucket())


@pytest.fixture(scope="module")
def hot_storage(shared_stores: TwoStores) -> Iterator[RemoteStorage]:
    with shared_stores.storage(default="hot") as storage:
        yield storage


@pytest.fixture(scope="module")
def cold_storage(shared_stores: TwoStores) -> Iterator[RemoteStorage]:
    with shared_stores.storage(default="cold") as storage:
        yield storage


@pytest.mark.nightly
class TestStorageInADirectoryBesideABucket(RemoteStorageContract):
    @pytest.fixture
    def storage(self, hot_storage: RemoteStorage) -> RemoteStorage:
        return hot_storage


class TestStorageInABucketBesideADirectory(RemoteStorageContract):
    gives_urls = True

    @pytest.fixture
    def storage(self, cold_storage: RemoteStorage) -> RemoteStorage:
        return cold_storage


def store_named_by(custom_metadata: bytes) -> str:
    return CustomMetadataV1.from_bytes(custom_metadata).store_name


def test_custom_metadata_names_the_store_that_took_the_segment(stores: TwoStores) -> None:
    chosen = replace(stores, topic_stores={"history": "cold"})
    with chosen.storage(default="hot") as storage, stores.opened() as opened:
        for topic, name in (("orders", "hot"), ("history", "cold")):
            metadata = make_metadata(topic=topic)
            assert store_named_by(storage.copy_segment(metadata, DATA)) == name
            keys = SegmentKeys.of(metadata)
            assert [name for name, store in opened.items() if store.exists(keys.manifest)] == [name]


def test_segment_is_read_and_deleted_where_it_is_after_the_default_changed(stores: TwoStores) -> None:
    metadata = make_metadata()
    with stores.storage(default="hot") as storage:
        finished = replace(metadata, custom_metadata=storage.copy_segment(metadata, DATA))
    with stores.storage(default="cold") as storage:
        assert read_back(storage, finished) == DATA
        assert read_back(storage, metadata) == DATA  # of a caller who does not pass it on
        assert storage.copy_segment(metadata, DATA) == finished.custom_metadata
        storage.delete_segment(finished)
        with pytest.raises(SegmentNotFound):
            storage.get_manifest(finished)


def test_delete_without_custom_metadata_clears_every_store(stores: TwoStores) -> None:
    metadata, neighbour = make_metadata(), make_metadata()
    with stores.opened() as opened, stores.storage(default="hot") as storage:
        for store in opened.values():
            for segment in (metadata, neighbour):
                SegmentStorage(store).copy_segment(segment, DATA)
        storage.delete_segment(metadata)
        for store in opened.values():
            keys = SegmentKeys.of(metadata)
            assert [stored.key for stored in store.list(keys.root)] == [keys.manifest]  # the tombstone
            assert read_back(SegmentStorage(store), neighbour) == DATA


def test_delete_with_custom_metadata_leaves_the_other_store_alone(stores: TwoStores) -> None:
    metadata = make_metadata()
    with stores.opened() as opened, stores.storage(default="hot") as storage:
        for name, store in opened.items():
            custom_metadata = SegmentStorage(store, name=name).copy_segment(metadata, DATA)
        storage.delete_segment(replace(metadata, custom_metadata=custom_metadata))
        with pytest.raises(SegmentNotFound):
            SegmentStorage(opened["cold"]).get_manifest(metadata)
        assert read_back(SegmentStorage(opened["hot"]), metadata) == DATA


def test_segment_in_a_store_that_is_not_configured_any_more_is_unavailable(stores: TwoStores) -> None:
    metadata = make_metadata()
    with stores.storage(default="cold") as storage:
        finished = replace(metadata, custom_metadata=storage.copy_segment(metadata, DATA))
    asked = metadata_to_proto(finished)
    only_hot = replace(stores, names=("hot",))
    with only_hot.plane(default="hot") as address, channel_to(address) as channel:
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        for call in (
            lambda: stub.GetSegmentManifest(pb.GetSegmentManifestRequest(metadata=asked)),
            lambda: list(stub.FetchSegment(pb.FetchSegmentRequest(metadata=asked))),
            lambda: stub.FetchIndex(pb.FetchIndexRequest(metadata=asked, file=types_pb2.SEGMENT_FILE_TIME_INDEX)),
            lambda: stub.ResolveSegment(pb.ResolveSegmentRequest(metadata=asked)),
            lambda: list(stub.VerifySegment(pb.VerifySegmentRequest(metadata=asked))),
            lambda: stub.DeleteSegment(pb.DeleteSegmentRequest(metadata=asked)),
        ):
            refused(call, grpc.StatusCode.UNAVAILABLE, "STORAGE_UNAVAILABLE")
        with (
            connect("ipv4:127.0.0.1:1", segments=address, timeout_s=10) as tiergate,
            pytest.raises(StorageUnavailable, match="in the store 'cold', which is not configured here: add it"),
        ):
            tiergate.storage.get_manifest(finished)
    with stores.storage(default="hot") as storage:
        assert read_back(storage, finished) == DATA


@pytest.mark.parametrize(("before", "after"), [("hot", "cold"), ("cold", "hot")])
def test_upload_is_continued_where_it_began_after_the_default_changed(
    stores: TwoStores, before: str, after: str
) -> None:
    metadata = make_metadata()
    manifest = LARGE.manifest(metadata)
    with stores.storage(default=before) as storage:

        def wait() -> None:
            wait_until(lambda: storage.get_upload(manifest).committed_bytes[SegmentFile.LOG] > 0)

        with pytest.raises(OSError, match="the disk broke here"):
            storage.copy_segment(metadata, breaking(LARGE, 11 * BLOCK_BYTES, wait=wait))
    with stores.storage(default=after) as storage, stores.opened() as opened:
        assert storage.get_upload(manifest).committed_bytes[SegmentFile.LOG] > 0
        [upload] = storage.list_uploads(metadata.partition)
        assert upload.store == before
        finished = replace(metadata, custom_metadata=storage.copy_segment(metadata, LARGE))
        assert store_named_by(finished.custom_metadata or b"") == before
        assert read_back(storage, finished) == LARGE
        assert list(opened[after].list(SegmentKeys.of(metadata).root)) == []
        assert list(storage.list_uploads(metadata.partition)) == []
        assert list(opened[before].list_partials(SegmentKeys.of(metadata).root)) == []
