"""A segment plane on a bucket: what goes through it, what happens when the store is away, and what is refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.planes import PlaneProcess, Planes, running_planes
from support.s3_server import Bucket, running_s3_server, s3_environment
from support.segments import make_data, make_metadata, read_back
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client import connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import SegmentNotFound, StorageUnavailable

MIB = 1024 * 1024
CONFIG_ERROR = 78


@pytest.fixture
def planes_on_s3(bucket: Bucket, tmp_path: Path) -> Iterator[Planes]:
    with running_planes(tmp_path / "planes", **bucket.plane_settings()) as planes:
        yield planes


def segments_plane(directory: Path, **settings: str) -> PlaneProcess:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return PlaneProcess(
        "segments",
        data_directory=directory,
        settings={"segments.listen": "127.0.0.1:0", "segments.metrics": "", **named},
    )


def test_large_segment_goes_up_and_down_in_bounded_memory_and_leaves_nothing_when_deleted(
    planes_on_s3: Planes, bucket: Bucket
) -> None:
    metadata, data = make_metadata(), make_data(log_bytes=64 * MIB)
    with connect(planes_on_s3.target, timeout_s=60) as tiergate:
        tiergate.storage.copy_segment(metadata, data)
        assert read_back(tiergate.storage, metadata) == data
        assert planes_on_s3.segments.peak_resident_bytes() < 250 * MIB
        assert bucket.unfinished_uploads() == []
        assert not [key for key in bucket.stored_keys() if not key.startswith("tiered/here/")]
        tiergate.storage.delete_segment(metadata)
        (tombstone,) = (key for key in bucket.stored_keys() if not key.endswith("/tiergate.json"))
    assert tombstone.endswith("manifest.json")


def test_snapshot_of_the_metadata_is_in_the_bucket_too(planes_on_s3: Planes, bucket: Bucket, tmp_path: Path) -> None:
    segments = [new_segment(new_partition(), 0, 9) for _ in range(5)]
    with connect(planes_on_s3.target, timeout_s=60) as tiergate:
        for segment in segments:
            tiergate.metadata.add_segment(segment)
        tiergate.admin.take_snapshot()
        assert [key for key in bucket.stored_keys() if key.startswith("tiered/here/snapshots/")]
        planes_on_s3.metadata.kill()
        shutil.rmtree(tmp_path / "planes" / "snapshots")
        planes_on_s3.metadata.start()
        for segment in segments:
            assert tiergate.metadata.get_segment(segment.segment_id) == segment


def test_plane_serves_before_its_store_is_there_and_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_environment(monkeypatch)
    with running_s3_server(tmp_path / "s3") as server:
        bucket = server.new_bucket()
        server.stop()
        with running_planes(tmp_path / "planes", **bucket.plane_settings()) as planes:
            metadata, data = make_metadata(), make_data()
            with connect(planes.target, timeout_s=20) as early:
                with pytest.raises(StorageUnavailable):
                    early.storage.copy_segment(metadata, data)
                with pytest.raises(StorageUnavailable):
                    early.storage.get_manifest(metadata)
            server.start()
            with connect(planes.target, timeout_s=20) as tiergate:
                tiergate.storage.copy_segment(metadata, data)
                assert read_back(tiergate.storage, metadata) == data
                with pytest.raises(SegmentNotFound):
                    tiergate.storage.get_manifest(make_metadata())


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ({"segments__store": "s3://nobody-made-this"}, {}, "create the bucket"),
        ({}, {"AWS_SECRET_ACCESS_KEY": "wrong-and-private"}, "check the credentials"),
    ],
)
def test_plane_refuses_a_bucket_that_will_not_do(
    tmp_path: Path,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    environment: dict[str, str],
    expected: str,
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    plane = segments_plane(tmp_path, **{**bucket.plane_settings(), **settings})
    with pytest.raises(RuntimeError, match=expected) as refusal:
        plane.start()
    assert "wrong-and-private" not in str(refusal.value)
    assert plane.wait() == CONFIG_ERROR


def test_upload_that_the_client_gives_up_leaves_what_can_be_continued_until_it_is_deleted(
    planes_on_s3: Planes, bucket: Bucket
) -> None:
    metadata = make_metadata()
    messages = upload_messages(metadata, make_data(log_bytes=20 * MIB))
    given_up = threading.Event()

    def unfinished() -> Iterator[pb.CopySegmentRequest]:
        yield from messages[:-1]
        given_up.wait()

    with channel_to(planes_on_s3.segments.address) as channel:
        storage = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        call = storage.CopySegment.future(unfinished())
        wait_until(lambda: bucket.unfinished_uploads() != [])
        call.cancel()
        given_up.set()
        wait_until(lambda: [key.rpartition("/")[2] for key in bucket.stored_keys()] == ["upload.json"])
        assert len(bucket.unfinished_uploads()) == 1
        storage.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(metadata)), timeout=TIMEOUT_S)
    assert bucket.unfinished_uploads() == []
    assert [key.rpartition("/")[2] for key in bucket.stored_keys()] == ["manifest.json"]  # the tombstone
