"""The segment plane as several processes on one port: calls spread, the dead replaced, quotas divided, all drained."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from support.metrics import calls_in_flight, metric
from support.planes import PlaneProcess
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, send, upload_messages
from tiergate.v1 import server_info_pb2, server_info_pb2_grpc, storage_pb2_grpc
from tiergate.v1 import storage_pb2 as pb
from tiergate_client import RemoteLogSegmentMetadata, connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.status import from_rpc_error

MIB, KIB = 1024 * 1024, 1024
WORKERS = 3
CONFIG_ERROR = 78


def segments_plane(directory: Path, **settings: str) -> PlaneProcess:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    free = {"segments.listen": "127.0.0.1:0", "segments.metrics": "127.0.0.1:0", "segments.workers": str(WORKERS)}
    return PlaneProcess("segments", data_directory=directory, settings={**free, **named})


@contextmanager
def running(plane: PlaneProcess) -> Iterator[PlaneProcess]:
    try:
        plane.start()
        yield plane
    finally:
        if plane.is_running():
            plane.kill()


@pytest.fixture(scope="module")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneProcess]:
    """For tests that leave it running, all workers of it."""
    with running(segments_plane(tmp_path_factory.mktemp("workers"), log_level="debug")) as plane:
        yield plane


def worker_pids(parent: int) -> set[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return {int(pid) for pid, parent_pid in map(str.split, listed.splitlines()) if int(parent_pid) == parent}


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def serving_pids(plane: PlaneProcess) -> set[int]:
    """Those that have answered a call, by their own log."""
    entries = []
    for line in plane.log_file.read_text(encoding="utf-8").splitlines():
        with suppress(json.JSONDecodeError):
            entries.append(json.loads(line))
    return {entry["pid"] for entry in entries if "GetServerInfo OK" in entry["message"]}


def ask(address: str) -> None:
    """On a connection of its own, which is one worker's."""
    with channel_to(address) as channel:
        stub = server_info_pb2_grpc.ServerInfoServiceStub(channel)
        stub.GetServerInfo(server_info_pb2.GetServerInfoRequest(), timeout=TIMEOUT_S, wait_for_ready=True)


@contextmanager
def held_streams(plane: PlaneProcess, metadata: RemoteLogSegmentMetadata, count: int) -> Iterator[list[grpc.Call]]:
    """Downloads that are not read any further, each on a connection of its own."""
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
    with ExitStack() as clients:
        streams = []
        for _ in range(count):
            stub = storage_pb2_grpc.RemoteStorageServiceStub(clients.enter_context(channel_to(plane.address)))
            streams.append(stub.FetchSegment(request, timeout=60))
            next(streams[-1])
        yield streams  # type: ignore[misc]  # the stubs know them as iterators only


def test_calls_are_spread_over_the_workers_and_counted_together(shared_plane: PlaneProcess) -> None:
    workers = worker_pids(shared_plane.pid)
    assert len(workers) == WORKERS
    before = metric(shared_plane, "tiergate_rpc_requests_total")
    for _ in range(40):
        ask(shared_plane.address)
    wait_until(lambda: serving_pids(shared_plane) == workers)
    assert metric(shared_plane, "tiergate_rpc_requests_total") == before + 40
    assert metric(shared_plane, "tiergate_build_info") == 1
    for worker in range(1, WORKERS + 1):
        assert metric(shared_plane, f'process_resident_memory_bytes{{worker="{worker}"}}') > 10 * MIB


def test_worker_that_is_killed_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    metadata, data = make_metadata(), make_data(log_bytes=24 * MIB)
    with running(segments_plane(tmp_path)) as plane, connect("127.0.0.1:1", segments=plane.address) as tiergate:
        tiergate.storage.copy_segment(metadata, data)
        with held_streams(plane, metadata, 24) as streams:
            assert calls_in_flight(plane) == 24
            answered = metric(plane, "tiergate_rpc_requests_total")
            before = worker_pids(plane.pid)
            killed = min(before)
            os.kill(killed, signal.SIGKILL)
            with tiergate.storage.fetch_segment(metadata) as stream:
                assert stream.read() == data.log
            wait_until(
                lambda: killed not in worker_pids(plane.pid) and len(worker_pids(plane.pid)) == WORKERS, timeout_s=60
            )
            wait_until(lambda: "is back" in plane.log_file.read_text(), timeout_s=60)
            assert len(worker_pids(plane.pid) - before) == 1
            ended = [stream.done() for stream in streams].count(True)  # type: ignore[attr-defined]
            assert 0 < ended < 24
            wait_until(lambda: calls_in_flight(plane) == 24 - ended)
            assert metric(plane, "tiergate_rpc_requests_total") > answered, "and what the dead one counted is kept"
        for _ in range(20):
            ask(plane.address)
        assert plane.stop() == 0


def test_stop_drains_every_worker(tmp_path: Path) -> None:
    metadata, data = make_metadata(), make_data(log_bytes=24 * MIB)
    with running(segments_plane(tmp_path)) as plane:
        with channel_to(plane.address) as channel:
            send(channel, upload_messages(metadata, data))
        with held_streams(plane, metadata, 12) as streams:
            workers = worker_pids(plane.pid)
            plane.signal(signal.SIGTERM)
            wait_until(lambda: plane.log_file.read_text().count("draining the segment plane") == WORKERS)
            for stream in streams:
                pieces = [len(piece.data) for piece in stream]  # type: ignore[attr-defined]
                assert sum(pieces) == 23 * MIB, "all but the piece that was read before"
        assert plane.wait() == 0
        assert not any(map(is_alive, workers))
        plane.start()
        ask(plane.address)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_second_plane_on_the_port_is_refused(shared_plane: PlaneProcess, tmp_path: Path, workers: str) -> None:
    address = shared_plane.address
    second = segments_plane(tmp_path, segments__listen=address, segments__workers=workers)
    with pytest.raises(RuntimeError):
        second.start()
    assert second.wait() == CONFIG_ERROR
    said = second.log_file.read_text()
    assert said.count(f"tiergate: segments.listen = {address} cannot be listened on: another program") == 1
    ask(address)


def test_store_that_cannot_work_ends_all_workers_with_one_sentence(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    plane = segments_plane(tmp_path, segments__store=f"file://{taken}")
    with pytest.raises(RuntimeError):
        plane.start()
    assert plane.wait() == CONFIG_ERROR
    assert plane.log_file.read_text().count("tiergate: segments.store") == 1


def test_quota_is_divided_over_the_workers(tmp_path: Path) -> None:
    rate = 400 * KIB
    plane = segments_plane(tmp_path, segments__workers="2", segments__quota__fetch_bytes_per_second=str(rate))
    metadata = make_metadata()
    with running(plane), channel_to(plane.address) as channel:
        send(channel, upload_messages(metadata, make_data(log_bytes=4 * MIB)))
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        stream = stub.FetchSegment(pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata)), timeout=60)
        next(stream)
        with pytest.raises(grpc.RpcError) as failure:
            next(stream)
        refusal = from_rpc_error(failure.value)
        assert refusal.details == {"limit": "fetch_bytes_per_second", "value": str(rate)}
        assert refusal.retry_after_ms is not None
        # 1 MiB less what the bucket held, at half the rate, is 4.1 s, of which 1 s was waited. Undivided: 0.6 s.
        assert 2000 < refusal.retry_after_ms < 4000
