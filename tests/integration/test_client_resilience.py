"""The client when the world around it breaks: planes that restart, streams that end early, processes that fork."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment
from crc32c import crc32c

from support.metrics import calls_in_flight
from support.planes import PlaneProcess, Planes, running_planes
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from tiergate.v1 import storage_pb2 as pb
from tiergate_client import LogSegmentData, SegmentFile, SegmentId, Tiergate, connect
from tiergate_client._uploads import Upload
from tiergate_client.errors import (
    CommitStateUnknown,
    DeadlineExceeded,
    LogChanged,
    StoredDataCorrupt,
    TiergateError,
    Unavailable,
)
from tiergate_client.segment_data import SegmentChunk

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SleepyData(LogSegmentData):
    """Whose sender sleeps once, in the middle of the log, until the plane has given it up."""

    plane: PlaneProcess | None = None

    def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
        plane = self.plane
        assert plane is not None
        for chunk in LogSegmentData.chunks(self, begin_at=begin_at):
            yield chunk
            if chunk.file is SegmentFile.LOG and chunk.offset == 10 * MIB and not begin_at.get(SegmentFile.LOG):
                wait_until(lambda: calls_in_flight(plane) == 0)


def test_upload_goes_on_after_the_plane_has_ended_it_as_stalled(tmp_path: Path) -> None:
    settings = {"segments__stall_seconds": "1", "segments__metrics": "127.0.0.1:0"}
    with running_planes(tmp_path, **settings) as planes, connect(planes.target) as tiergate:
        metadata, data = make_metadata(), make_data(log_bytes=12 * MIB)
        files = {field.name: getattr(data, field.name) for field in fields(LogSegmentData)}
        tiergate.storage.copy_segment(metadata, SleepyData(**files, plane=planes.segments))
        with tiergate.storage.fetch_segment(metadata) as stream:
            assert stream.read() == data.log


def test_download_goes_on_where_it_was_after_the_plane_was_killed(tmp_path: Path) -> None:
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        metadata, data = make_metadata(), make_data(log_bytes=64 * MIB)
        assert isinstance(data.log, bytes)
        tiergate.storage.copy_segment(metadata, data)
        received = bytearray()
        with tiergate.storage.fetch_segment(metadata, offset=5) as stream:
            for number, piece in enumerate(stream):
                received += piece
                if number in (1, 8, 20):
                    planes.segments.kill()
                    planes.segments.start()
        assert bytes(received) == data.log[5:]


class FaultyServer(grpc.GenericRpcHandler):
    """A segment plane that answers FetchSegment with what the test wrote into its script."""

    def __init__(self, script: list[list[pb.FetchSegmentResponse | grpc.StatusCode]]) -> None:
        self.script = script
        self.asked: list[tuple[int, int]] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if not details.method.endswith("/FetchSegment"):
            return None
        return grpc.unary_stream_rpc_method_handler(
            self.fetch,
            request_deserializer=pb.FetchSegmentRequest.FromString,
            response_serializer=pb.FetchSegmentResponse.SerializeToString,
        )

    def fetch(
        self, request: pb.FetchSegmentRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.FetchSegmentResponse]:
        self.asked.append((request.offset, request.length))
        for step in self.script.pop(0):
            if isinstance(step, grpc.StatusCode):
                context.abort(step, "as the script says")
            else:
                yield step


@pytest.fixture
def faulty() -> Iterator[tuple[FaultyServer, Tiergate]]:
    handler = FaultyServer([])
    server = grpc.server(ThreadPoolExecutor(4), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with connect("127.0.0.1:1", segments=f"127.0.0.1:{port}", timeout_s=5) as tiergate:
        yield handler, tiergate
    server.stop(None)


def chunk(offset: int, data: bytes, *, last: bool = False, stream: bytes | None = None) -> pb.FetchSegmentResponse:
    checksum = crc32c(data if stream is None else stream) if last else None
    return pb.FetchSegmentResponse(offset=offset, crc32c=crc32c(data), stream_crc32c=checksum, data=data)


def test_broken_streams_are_resumed_at_the_own_position(faulty: tuple[FaultyServer, Tiergate]) -> None:
    server, tiergate = faulty
    server.script = [
        [grpc.StatusCode.UNAVAILABLE],
        [chunk(10, b"abc"), grpc.StatusCode.UNAVAILABLE],
        [chunk(13, b"de")],  # ends without its last chunk
        [chunk(15, b"fgh", last=True)],
    ]
    with tiergate.storage.fetch_segment(make_metadata(), offset=10, length=8) as stream:
        assert stream.read() == b"abcdefgh"
    assert server.asked == [(10, 8), (10, 8), (13, 5), (15, 3)]


@pytest.mark.parametrize(
    "spoiled",
    [
        pb.FetchSegmentResponse(offset=10, crc32c=1, stream_crc32c=crc32c(b"abc"), data=b"abc"),
        chunk(10, b"abc", last=True, stream=b"other"),
        chunk(11, b"abc", last=True),
    ],
    ids=["chunk checksum", "stream checksum", "another offset"],
)
def test_damaged_stream_is_never_data(faulty: tuple[FaultyServer, Tiergate], spoiled: pb.FetchSegmentResponse) -> None:
    server, tiergate = faulty
    server.script = [[spoiled]]
    with pytest.raises(StoredDataCorrupt), tiergate.storage.fetch_segment(make_metadata(), offset=10) as stream:
        stream.read()


def test_failure_that_will_not_pass_ends_the_download_at_once(faulty: tuple[FaultyServer, Tiergate]) -> None:
    server, tiergate = faulty
    server.script = [[chunk(0, b"abc"), grpc.StatusCode.DATA_LOSS]]
    with tiergate.storage.fetch_segment(make_metadata()) as stream, pytest.raises(TiergateError):
        stream.read()
    assert len(server.asked) == 1


def test_server_that_stays_away_is_unavailable_in_time() -> None:
    with connect("127.0.0.1:1", segments="127.0.0.1:1", timeout_s=0.5) as tiergate:
        for read in (lambda: tiergate.metadata.get_segment(SegmentId.random()), tiergate.server_info):
            with pytest.raises((Unavailable, DeadlineExceeded)):
                read()
        for call in (
            lambda: tiergate.metadata.add_segment(new_segment(new_partition(), 0, 9)),
            lambda: tiergate.storage.copy_segment(make_metadata(), make_data()),
            lambda: tiergate.storage.fetch_segment(make_metadata()),
        ):
            with pytest.raises(Unavailable):
                call()


def test_mutation_without_a_verdict_is_commit_state_unknown() -> None:
    """A server that takes the call and never answers."""
    release = threading.Event()

    class Silent(grpc.GenericRpcHandler):
        def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: release.wait(30) and b"")

    server = grpc.server(ThreadPoolExecutor(4), handlers=[Silent()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with connect(f"127.0.0.1:{port}", timeout_s=0.5) as tiergate, pytest.raises(CommitStateUnknown):
        tiergate.metadata.add_segment(new_segment(new_partition(), 0, 9))
    release.set()
    server.stop(None)


def test_token_of_a_log_that_was_made_anew_is_dropped_and_told(tmp_path: Path) -> None:
    segment = new_segment(new_partition(), 0, 9)
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        tiergate.metadata.add_segment(segment)
        planes.metadata.stop()
        for file in tmp_path.glob("metadata.db*"):
            file.unlink()
        planes.metadata.start()
        with pytest.raises(LogChanged):
            tiergate.metadata.get_segment(segment.segment_id)
        tiergate.metadata.add_segment(segment)
        assert tiergate.metadata.get_segment(segment.segment_id) == segment


# A program of its own: the tests' process has threads and channels that a fork must not meet.
FORKING = """
import os, sys
from tiergate_client import SegmentId, connect

target, segment_id, used_before_fork = sys.argv[1], SegmentId.from_text(sys.argv[2]), sys.argv[3] == "True"
tiergate = connect(target, timeout_s=10)
if used_before_fork:
    tiergate.metadata.get_segment(segment_id)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if tiergate.metadata.get_segment(segment_id).segment_id == segment_id else 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children], tiergate.metadata.get_segment(segment_id).segment_id)
"""


@pytest.mark.parametrize("used_before_fork", [False, True])
def test_client_is_safe_across_a_fork(planes: Planes, used_before_fork: bool) -> None:
    segment = new_segment(new_partition(), 0, 9)
    with connect(planes.target) as writer:
        writer.metadata.add_segment(segment)
    told = subprocess.run(
        [sys.executable, "-c", FORKING, planes.target, str(segment.segment_id), str(used_before_fork)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert told.strip() == f"[0, 0, 0] {segment.segment_id}"


def test_file_that_vanishes_while_it_is_sent_is_told_as_such(planes: Planes, tmp_path: Path) -> None:
    data = make_data()
    for name in ("log", "offset_index"):
        source = getattr(data, name)
        assert isinstance(source, bytes)
        (tmp_path / name).write_bytes(source)
    on_disk = LogSegmentData(
        log=tmp_path / "log",
        offset_index=tmp_path / "offset_index",
        time_index=b"",
        leader_epoch=data.leader_epoch,
    )
    metadata = make_metadata()
    manifest = on_disk.manifest(metadata)
    shutil.rmtree(tmp_path)
    with connect(planes.target) as tiergate:
        with pytest.raises(FileNotFoundError):
            tiergate.storage.copy_segment(metadata, on_disk)
        with (
            grpc.insecure_channel(planes.segments.address) as channel,
            pytest.raises(FileNotFoundError),
        ):
            Upload(manifest, on_disk, begin_at={}).send(channel, timeout_s=20)


def test_threads_share_a_client(planes: Planes) -> None:
    with connect(planes.target) as tiergate:
        segments = [new_segment(new_partition(), 0, 9) for _ in range(40)]

        def write_and_read(number: int) -> bool:
            tiergate.metadata.add_segment(segments[number])
            return tiergate.metadata.get_segment(segments[number].segment_id) == segments[number]

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(write_and_read, range(len(segments))))


def test_closed_stream_frees_the_server(planes: Planes) -> None:
    metadata = make_metadata()
    with connect(planes.target) as tiergate:
        tiergate.storage.copy_segment(metadata, make_data(log_bytes=8 * MIB))
        for _ in range(200):  # more than the server's threads
            with tiergate.storage.fetch_segment(metadata) as stream:
                next(iter(stream))
        wait_until(lambda: tiergate.health("segments"))
