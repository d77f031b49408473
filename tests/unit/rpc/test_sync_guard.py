"""What the guard makes of behaviours that fail, of disks that are slow and of callers that leave."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.guarded_server import guarded_server, storage_service
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import TIMEOUT_S, refused, send, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import SegmentNotFound
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.disk import OsDisk
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.rpc.storage_service import handlers
from tiergate_server.segments.call_deadline import remaining_s
from tiergate_server.segments.segment_storage import SegmentStorage

INTERNAL = grpc.StatusCode.INTERNAL
STALL_SECONDS = 0.2


def fails(request: bytes, context: grpc.ServicerContext) -> bytes:
    raise ValueError("the secret of 10.0.0.1")


def fails_in_the_middle(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    yield b"first"
    raise ValueError("the secret of 10.0.0.1")


FAILING = grpc.method_handlers_generic_handler(
    "test.Failing",
    {
        "Unary": grpc.unary_unary_rpc_method_handler(fails),
        "Upload": grpc.stream_unary_rpc_method_handler(fails),
        "Download": grpc.unary_stream_rpc_method_handler(fails_in_the_middle),
        "Both": grpc.stream_stream_rpc_method_handler(fails_in_the_middle),
    },
)


@pytest.mark.parametrize("method", ["Unary", "Upload", "Download", "Both"])
def test_unforeseen_failure_goes_out_as_an_incident_that_the_log_has(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded_server(FAILING) as channel, caplog.at_level(logging.ERROR):
        call: Any = channel.unary_stream(f"/test.Failing/{method}")
        with pytest.raises(grpc.RpcError) as failure:
            list(call(b"", timeout=TIMEOUT_S))
        assert "secret" not in str(failure.value.details())
        details = refused(lambda: list(call(b"", timeout=TIMEOUT_S)), INTERNAL, "INTERNAL_ERROR")
    (record,) = [record for record in caplog.records if details["incident"] in record.getMessage()]
    assert f"/test.Failing/{method}" in record.getMessage()
    assert record.exc_info is not None
    assert "the secret of 10.0.0.1" in str(record.exc_info[1])


class HeldDisk(OsDisk):
    """Calls stop at an operation of one kind, once `passing` of them are through, until they are let go."""

    def __init__(self, held: str, *, passing: int = 0) -> None:
        self._held = held
        self._passing = passing
        self.arrived = threading.Event()
        self.let_go = threading.Event()

    def fsync(self, handle: int) -> None:
        self._pass("fsync")
        super().fsync(handle)

    def read(self, handle: int, size: int, *, offset: int) -> bytes:
        self._pass("read")
        return super().read(handle, size, offset=offset)

    def read_into(self, handle: int, place: memoryview, *, offset: int) -> int:
        self._pass("read")
        return super().read_into(handle, place, offset=offset)

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        self._pass("link")

    def let_go_late(self) -> None:
        """Whoever arrives has been held for several stall times."""
        self.arrived.wait(TIMEOUT_S)
        threading.Timer(5 * STALL_SECONDS, self.let_go.set).start()

    def _pass(self, operation: str) -> None:
        if operation != self._held or threading.current_thread() is threading.main_thread():
            return
        if self._passing:
            self._passing -= 1
            return
        self.arrived.set()
        self.let_go.wait(TIMEOUT_S)


# The third read of a log's blocks, behind that of the manifest, comes after the first chunk has left.
@pytest.mark.parametrize(("slow", "passing"), [("fsync", 0), ("read", 0), ("read", 3)])
def test_slow_disk_is_no_stall_of_the_caller(tmp_path: Path, slow: str, passing: int) -> None:
    disk = HeldDisk(slow, passing=passing)
    storage = SegmentStorage(FilesystemStore(tmp_path, disk=disk))
    metadata, data = make_metadata(), make_data(log_bytes=3 * BLOCK_BYTES)
    with guarded_server(handlers(storage_service(storage)), stall_seconds=STALL_SECONDS) as channel:
        request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        threading.Thread(target=disk.let_go_late).start()
        send(channel, upload_messages(metadata, data))
        received = b"".join(chunk.data for chunk in stub.FetchSegment(request, timeout=TIMEOUT_S))
    assert disk.arrived.is_set()
    assert received == data.log


def test_upload_whose_caller_leaves_after_finish_is_not_committed(tmp_path: Path) -> None:
    metadata, data = make_metadata(), make_data()
    # The marker and all files but one are linked; after the last one comes the manifest.
    disk = HeldDisk("link", passing=len(data.sources))
    storage = SegmentStorage(FilesystemStore(tmp_path, disk=disk))
    service = storage_service(storage)
    copy, caller_left, is_over = service.copy_segment, threading.Event(), threading.Event()

    def observed_copy(messages: Iterator[bytes], context: grpc.ServicerContext) -> pb.CopySegmentResponse:
        context.add_callback(caller_left.set)
        try:
            return copy(messages, context)
        finally:
            is_over.set()

    service.copy_segment = observed_copy  # type: ignore[method-assign]
    with guarded_server(handlers(service)) as channel:
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        call = stub.CopySegment.future(iter(upload_messages(metadata, data)), timeout=TIMEOUT_S)
        assert disk.arrived.wait(TIMEOUT_S)
        call.cancel()
        assert caller_left.wait(TIMEOUT_S)
        disk.let_go.set()
        assert is_over.wait(TIMEOUT_S)
        with pytest.raises(SegmentNotFound):
            storage.get_manifest(metadata)
        assert send(channel, upload_messages(metadata, data)).custom_metadata, "and may be sent again"


def test_caller_that_sends_nothing_is_cut_off_whatever_it_calls(tmp_path: Path) -> None:
    storage = SegmentStorage(FilesystemStore(tmp_path))
    never = threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(TIMEOUT_S)
        yield from ()

    with guarded_server(handlers(storage_service(storage)), stall_seconds=STALL_SECONDS) as channel:
        for method in ("CopySegment", "FetchSegment", "GetSegmentManifest"):
            raw: Any = channel.stream_stream(f"/tiergate.v1.RemoteStorageService/{method}")
            call = raw(nothing(), timeout=TIMEOUT_S)
            wait_until(call.done)
            assert call.code() is grpc.StatusCode.CANCELLED
    never.set()


def tells_what_remains(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for _ in range(2):
        yield str(remaining_s()).encode()


DEADLINES = grpc.method_handlers_generic_handler(
    "test.Deadlines", {"Tell": grpc.unary_stream_rpc_method_handler(tells_what_remains)}
)


def test_work_behind_a_call_knows_how_long_its_caller_waits() -> None:
    with guarded_server(DEADLINES) as channel:
        call: Any = channel.unary_stream("/test.Deadlines/Tell")
        for timeout_s in (900, 50):  # from 1000 s on, gRPC sends tens of seconds
            assert all(timeout_s - 20 < float(remaining) < timeout_s + 1 for remaining in call(b"", timeout=timeout_s))
