"""Planes under clients that stall, crowd, cancel or leave, and planes that are told to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.health import is_serving
from support.metrics import calls_in_flight
from support.planes import Planes, running_planes
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, refused, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client import LogSegmentData, RemoteLogSegmentMetadata, connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import SegmentNotFound, Unavailable

MIB = 1024 * 1024
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class HeldUpload:
    """An upload that has sent its header and waits."""

    def __init__(self, channel: grpc.Channel, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        messages = upload_messages(metadata, data)
        self._go_on = threading.Event()

        def stream() -> Iterator[pb.CopySegmentRequest]:
            yield messages[0]
            self._go_on.wait()
            yield from messages[1:]

        self.call = storage_pb2_grpc.RemoteStorageServiceStub(channel).CopySegment.future(stream(), timeout=60)

    def finish(self) -> pb.CopySegmentResponse:
        self._go_on.set()
        return self.call.result(60)

    def cancel(self) -> None:
        self.call.cancel()
        self._go_on.set()


def test_upload_that_stops_sending_is_cut_off(tmp_path: Path) -> None:
    with (
        running_planes(tmp_path, segments__stall_seconds="1") as planes,
        channel_to(planes.segments.address) as channel,
    ):
        upload = HeldUpload(channel, make_metadata(), make_data())
        with pytest.raises(grpc.RpcError) as failure:
            upload.call.result(30)
        assert failure.value.code() is grpc.StatusCode.CANCELLED
        upload.cancel()


def test_limits_refuse_by_name_and_health_answers_outside_them(tmp_path: Path) -> None:
    with (
        running_planes(
            tmp_path,
            segments__limits__concurrent_calls="3",
            segments__limits__uploads="2",
            segments__metrics="127.0.0.1:0",
        ) as planes,
        channel_to(planes.segments.address) as channel,
    ):
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        uploads = [HeldUpload(channel, make_metadata(), make_data()) for _ in range(2)]
        wait_until(lambda: calls_in_flight(planes.segments) == 2)
        third = upload_messages(make_metadata(), make_data())
        details = refused(lambda: stub.CopySegment(iter(third), timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "uploads", "value": "2"}

        metadata, data = make_metadata(), make_data(log_bytes=24 * MIB)
        uploads[0].finish()
        with connect(planes.target) as tiergate:
            tiergate.storage.copy_segment(metadata, data)
        request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
        streams = [stub.FetchSegment(request, timeout=60) for _ in range(2)]
        for stream in streams:
            next(stream)
        wait_until(lambda: calls_in_flight(planes.segments) == 3)
        manifest = pb.GetSegmentManifestRequest(metadata=metadata_to_proto(metadata))
        details = refused(lambda: stub.GetSegmentManifest(manifest, timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "concurrent_calls", "value": "3"}
        assert is_serving(planes.segments.address)
        for stream in streams:
            stream.cancel()
        uploads[1].finish()
        wait_until(lambda: calls_in_flight(planes.segments) == 0)
        stub.GetSegmentManifest(manifest, timeout=TIMEOUT_S)


def test_topic_leaves_uploads_to_other_topics(tmp_path: Path) -> None:
    with (
        running_planes(tmp_path, segments__limits__uploads="4") as planes,
        channel_to(planes.segments.address) as channel,
        connect(planes.target) as tiergate,
    ):
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        begun = [make_metadata(topic="greedy") for _ in range(3)]
        uploads = [HeldUpload(channel, metadata, make_data()) for metadata in begun]
        wait_until(lambda: all(any(tiergate.storage.list_uploads(metadata.partition)) for metadata in begun))
        fourth = upload_messages(make_metadata(topic="greedy"), make_data())
        details = refused(lambda: stub.CopySegment(iter(fourth), timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "topic_uploads", "value": "3"}
        tiergate.storage.copy_segment(make_metadata(topic="modest"), make_data())
        for upload in uploads:
            upload.finish()


def test_indexes_of_uploads_in_flight_are_bounded_together(tmp_path: Path) -> None:
    with (
        running_planes(tmp_path, segments__limits__upload_index_bytes="1000") as planes,
        channel_to(planes.segments.address) as channel,
        connect(planes.target) as tiergate,
    ):
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        held = make_metadata(topic="first")
        upload = HeldUpload(channel, held, make_data(index_bytes=300))
        wait_until(lambda: any(tiergate.storage.list_uploads(held.partition)))
        second = upload_messages(make_metadata(topic="second"), make_data(index_bytes=300))
        details = refused(lambda: stub.CopySegment(iter(second), timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "upload_index_bytes", "value": "1000"}
        upload.finish()
        tiergate.storage.copy_segment(make_metadata(topic="second"), make_data(index_bytes=300))


def test_cancelled_upload_stores_nothing_and_frees_its_place(tmp_path: Path) -> None:
    with running_planes(tmp_path, segments__limits__uploads="1", segments__metrics="127.0.0.1:0") as planes:
        metadata = make_metadata()
        with channel_to(planes.segments.address) as channel, connect(planes.target) as tiergate:
            upload = HeldUpload(channel, metadata, make_data())
            wait_until(lambda: calls_in_flight(planes.segments) == 1)
            upload.cancel()
            wait_until(lambda: calls_in_flight(planes.segments) == 0)
            with pytest.raises(SegmentNotFound):
                tiergate.storage.get_manifest(metadata)
            assert tiergate.storage.copy_segment(metadata, make_data())


def test_late_upload_stores_nothing(planes: Planes) -> None:
    metadata, data = make_metadata(), make_data()
    messages = upload_messages(metadata, data)
    never = threading.Event()

    def stream() -> Iterator[pb.CopySegmentRequest]:
        yield from messages[:-1]
        never.wait(10)

    with channel_to(planes.segments.address) as channel, connect(planes.target) as tiergate:
        with pytest.raises(grpc.RpcError) as failure:
            storage_pb2_grpc.RemoteStorageServiceStub(channel).CopySegment(stream(), timeout=0.5)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        never.set()
        with pytest.raises(SegmentNotFound):
            tiergate.storage.get_manifest(metadata)


def test_delete_defeats_a_copy_that_is_under_way(planes: Planes) -> None:
    metadata, data = make_metadata(), make_data()
    with channel_to(planes.segments.address) as channel, connect(planes.target) as tiergate:
        upload = HeldUpload(channel, metadata, data)
        segment_directory = Path(tiergate.server_info("segments").backend.removeprefix("file://")) / (
            f"{metadata.partition.topic_id}_0/{metadata.segment_id}"
        )
        wait_until(segment_directory.exists)
        tiergate.storage.delete_segment(metadata)
        refused(upload.finish, grpc.StatusCode.ALREADY_EXISTS, "SEGMENT_CONFLICT")
        with pytest.raises(SegmentNotFound):
            tiergate.storage.get_manifest(metadata)


def test_drain_finishes_what_runs_and_refuses_what_is_new(tmp_path: Path) -> None:
    with running_planes(tmp_path) as planes:
        metadata = make_metadata()
        with channel_to(planes.segments.address) as channel:
            upload = HeldUpload(channel, metadata, make_data())
            segments = tmp_path / "segments"
            wait_until(lambda: any(segments.glob("*/*/*/*")))
            planes.segments.signal(signal.SIGTERM)
            wait_until(lambda: "draining" in planes.segments.log_file.read_text())
            wait_until(lambda: _refuses_new_calls(planes.segments.address))
            assert upload.finish().custom_metadata
        assert planes.segments.wait() == 0
        planes.segments.start()
        with connect(planes.target) as tiergate:
            assert tiergate.storage.get_manifest(metadata).metadata.segment_id == metadata.segment_id


def _refuses_new_calls(address: str) -> bool:
    try:
        return not is_serving(address)
    except grpc.RpcError as failure:
        return failure.code() is grpc.StatusCode.UNAVAILABLE


def test_metadata_plane_drains_and_keeps_everything(tmp_path: Path) -> None:
    segment = new_segment(new_partition(), 0, 9)
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        tiergate.metadata.add_segment(segment)
        assert planes.metadata.stop() == 0
        planes.metadata.start()
        assert tiergate.metadata.get_segment(segment.segment_id) == segment


def test_watcher_does_not_hold_up_the_drain(tmp_path: Path) -> None:
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        changes = tiergate.metadata.watch()
        next(changes)
        begin = time.monotonic()
        assert planes.metadata.stop() == 0
        assert time.monotonic() - begin < 15, "of a drain of 30 s"
        with pytest.raises(Unavailable):
            list(changes)


@pytest.mark.parametrize("plane", ["metadata", "segments"])
def test_watch_of_health_does_not_hold_up_the_drain(tmp_path: Path, plane: str) -> None:
    with running_planes(tmp_path) as planes:
        stopped = getattr(planes, plane)
        with channel_to(stopped.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            begin = time.monotonic()
            assert stopped.stop() == 0
            assert time.monotonic() - begin < 15, "of a drain of 30 s"
