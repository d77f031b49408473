"""Many clients that stop reading: the plane's memory, the other clients meanwhile, and how they are ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from support.health import is_serving
from support.metrics import calls_in_flight
from support.planes import running_planes
from support.s3_server import Bucket
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import channel_to, refused
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client import connect
from tiergate_client.conversions import metadata_to_proto

MIB = 1024 * 1024
CLIENTS = 64
Stream = Iterator[pb.FetchSegmentResponse]


@pytest.fixture(params=["directories", "s3"])
def store(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "directories":
        return {}
    bucket: Bucket = request.getfixturevalue("bucket")
    return bucket.plane_settings()


def test_clients_that_stop_reading_stop_nobody_else_and_are_ended(tmp_path: Path, store: dict[str, str]) -> None:
    settings = {"segments__stall_seconds": "10", "segments__metrics": "127.0.0.1:0", **store}
    metadata, data = make_metadata(), make_data(log_bytes=64 * MIB)
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
    with running_planes(tmp_path, **settings) as planes, connect(planes.target) as tiergate, ExitStack() as clients:
        plane = planes.segments
        tiergate.storage.copy_segment(metadata, data)
        stalled = []
        for _ in range(CLIENTS):
            channel = clients.enter_context(channel_to(plane.address))
            stream = storage_pb2_grpc.RemoteStorageServiceStub(channel).FetchSegment(request, timeout=120)
            next(stream)
            stalled.append(stream)
        assert calls_in_flight(plane) == CLIENTS
        with tiergate.storage.fetch_segment(metadata) as other:
            assert other.read() == data.log
        tiergate.storage.copy_segment(make_metadata(), make_data())
        assert is_serving(plane.address)
        assert calls_in_flight(plane) > 0, "the others were served beside them, not after them"
        wait_until(lambda: calls_in_flight(plane) == 0, timeout_s=40)
        print(f"plane {plane.peak_resident_bytes() / MIB:.0f} MiB at its peak")
        assert plane.peak_resident_bytes() < 1024 * MIB
        assert {end_of(stream) for stream in stalled} == {grpc.StatusCode.CANCELLED}


def end_of(stream: Stream) -> grpc.StatusCode:
    try:
        for _ in stream:
            pass
    except grpc.RpcError as failure:
        return failure.code()
    return grpc.StatusCode.OK


def test_downloads_above_the_limit_are_refused_by_name_and_other_calls_are_not(tmp_path: Path) -> None:
    metadata, data = make_metadata(), make_data(log_bytes=24 * MIB)
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
    with (
        running_planes(tmp_path, segments__limits__downloads="2") as planes,
        connect(planes.target) as tiergate,
        channel_to(planes.segments.address) as channel,
    ):
        tiergate.storage.copy_segment(metadata, data)
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        held = [stub.FetchSegment(request, timeout=60) for _ in range(2)]
        for stream in held:
            next(stream)
        details = refused(
            lambda: next(stub.FetchSegment(request, timeout=60)),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "LIMIT_EXCEEDED",
        )
        assert details == {"limit": "downloads", "value": "2"}
        assert tiergate.server_info("segments").limits["downloads"] == 2
        assert tiergate.storage.get_manifest(metadata).metadata.segment_id == metadata.segment_id
        held[0].cancel()
        with tiergate.storage.fetch_segment(metadata) as other:
            assert other.read() == data.log, "which waits as it is told until there is room"
        held[1].cancel()
