"""A running plane whose way to S3 breaks, stalls or is refused: documented errors, right bytes, nothing left open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from support.planes import PlaneProcess, running_planes
from support.s3_proxy import (
    Answer,
    Fault,
    LoseAnswer,
    Refuse,
    Reset,
    Rule,
    S3Proxy,
    S3Request,
    Stall,
    Truncate,
    once,
    s3_proxy,
)
from support.s3_server import Bucket, S3Server, s3_environment
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import channel_to, error_info, refused, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client.conversions import manifest_to_proto, metadata_to_proto
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.values import RemoteLogSegmentMetadata

MIB = 1024 * 1024
SMALL = make_data(log_bytes=MIB + 77)
IN_PARTS = make_data(log_bytes=12 * MIB + 77, seed=1)
TIME_INDEX = types_pb2.SEGMENT_FILE_TIME_INDEX
PATIENCE_S = 20.0
UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
DEADLINE_EXCEEDED = grpc.StatusCode.DEADLINE_EXCEEDED


@dataclass(frozen=True)
class Plane:
    """A plane of this module's own, without a cache, and the proxy that stands between it and its bucket."""

    process: PlaneProcess
    proxy: S3Proxy
    bucket: Bucket
    stub: storage_pb2_grpc.RemoteStorageServiceStub

    def behave(self) -> None:
        self.proxy.rule = lambda _: None
        # Whoever waits for an answer that never comes is let go of.
        self.proxy.stopped.set()
        self.proxy.stopped.clear()

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))


@dataclass(frozen=True)
class Segment:
    metadata: RemoteLogSegmentMetadata
    data: LogSegmentData


Call = Callable[[Plane, Segment, float], object]


def copy(plane: Plane, segment: Segment, timeout_s: float = PATIENCE_S) -> None:
    plane.stub.CopySegment(iter(upload_messages(segment.metadata, segment.data)), timeout=timeout_s)


def fetch(plane: Plane, segment: Segment, timeout_s: float = PATIENCE_S) -> None:
    received = bytearray()
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(segment.metadata))
    try:
        for chunk in plane.stub.FetchSegment(request, timeout=timeout_s):
            received += chunk.data
    finally:
        assert isinstance(segment.data.log, bytes)
        assert segment.data.log.startswith(received)  # as far as it came, it is right
    assert len(received) == len(segment.data.log)


def fetch_index(plane: Plane, segment: Segment, timeout_s: float = PATIENCE_S) -> None:
    request = pb.FetchIndexRequest(metadata=metadata_to_proto(segment.metadata), file=TIME_INDEX)
    assert plane.stub.FetchIndex(request, timeout=timeout_s).data == segment.data.time_index


def delete(plane: Plane, segment: Segment, timeout_s: float = PATIENCE_S) -> None:
    plane.stub.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(segment.metadata)), timeout=timeout_s)


def get_upload(plane: Plane, segment: Segment, timeout_s: float = PATIENCE_S) -> None:
    header = manifest_to_proto(segment.data.manifest(segment.metadata))
    assert plane.stub.GetUpload(pb.GetUploadRequest(header=header), timeout=timeout_s).custom_metadata


@dataclass(frozen=True)
class Case:
    call: Call
    data: LogSegmentData
    needs_segment: bool


CASES = {
    "copy": Case(copy, SMALL, needs_segment=False),
    "copy_in_parts": Case(copy, IN_PARTS, needs_segment=False),
    "fetch": Case(fetch, IN_PARTS, needs_segment=True),
    "index": Case(fetch_index, SMALL, needs_segment=True),
    "delete": Case(delete, SMALL, needs_segment=True),
    "get_upload": Case(get_upload, SMALL, needs_segment=True),
}


@pytest.fixture(scope="module")
def plane(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        bucket = s3.new_bucket()
        with s3_proxy(bucket.endpoint_url, lambda _: None) as proxy:
            settings = {
                **bucket.plane_settings(),
                "segments__s3__endpoint_url": proxy.endpoint_url,
                "segments__s3__part_bytes": str(5 * MIB),
                "segments__cache_bytes": "0",
                "segments__limits__chunk_bytes": str(MIB),
            }
            with (
                running_planes(tmp_path_factory.mktemp("planes"), **settings) as planes,
                channel_to(planes.segments.address) as channel,
            ):
                stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
                yield Plane(planes.segments, proxy, bucket, stub)


@pytest.fixture(autouse=True)
def whole_network(plane: Plane) -> Iterator[None]:
    yield
    plane.behave()


def segment_for(plane: Plane, case: Case) -> Segment:
    segment = Segment(make_metadata(), case.data)
    if case.needs_segment:
        copy(plane, segment)
    return segment


def named_uploads(plane: Plane) -> set[str]:
    """The keys of logs that a descriptor names: these can be continued."""
    ends = "/upload.json"
    return {f"{key.removesuffix(ends)}/log" for key in plane.bucket.stored_keys() if key.endswith(ends)}


def unfinished_uploads(plane: Plane, segment: Segment) -> set[str]:
    return {key for key in plane.bucket.unfinished_uploads() if f"/{segment.metadata.segment_id}/" in key}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        (Refuse(503, "SlowDown"), EXHAUSTED, "BACKEND_THROTTLED"),
        (Refuse(500, "InternalError"), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
        (Refuse(403, "AccessDenied"), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
        (Refuse(404, "NoSuchBucket"), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
        (Reset(), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
        (Truncate(0), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
        (Answer(b"<html>there is nothing here</html>", status=404), UNAVAILABLE, "STORAGE_UNAVAILABLE"),
    ],
    ids=["slow_down", "internal_error", "access_denied", "no_such_bucket", "reset", "truncated", "not_s3"],
)
def test_call_has_the_documented_error_while_the_network_is_bad_and_succeeds_after(
    plane: Plane, case: Case, fault: Fault, code: grpc.StatusCode, reason: str
) -> None:
    segment = segment_for(plane, case)
    plane.proxy.rule = always(fault)
    begun = time.monotonic()
    refused(lambda: case.call(plane, segment, PATIENCE_S), code, reason)
    assert time.monotonic() - begun < PATIENCE_S
    plane.behave()
    case.call(plane, segment, PATIENCE_S)
    assert unfinished_uploads(plane, segment) == set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_call_ends_at_its_deadline_while_the_store_is_silent_and_succeeds_after(plane: Plane, case: Case) -> None:
    segment = segment_for(plane, case)
    plane.proxy.rule = always(Stall())
    with pytest.raises(grpc.RpcError) as failure:
        case.call(plane, segment, 0.5)
    assert failure.value.code() is DEADLINE_EXCEEDED
    asked = len(plane.proxy.requests)
    plane.behave()
    case.call(plane, segment, PATIENCE_S)
    assert len(plane.proxy.requests) > asked
    assert unfinished_uploads(plane, segment) == set()


def always(fault: Fault) -> Rule:
    return lambda _: fault


def is_part(request: S3Request) -> bool:
    return request.is_part


def is_completion(request: S3Request) -> bool:
    return request.is_completion


def is_put_of(name: str) -> Callable[[S3Request], bool]:
    def is_it(request: S3Request) -> bool:
        return request.method == "PUT" and request.key.endswith(name)

    return is_it


@pytest.mark.parametrize(
    ("matches", "fault"),
    [
        (is_part, Reset(100_000)),
        (is_part, LoseAnswer()),
        (is_part, Refuse(503, "SlowDown")),
        (is_completion, LoseAnswer()),
        (is_completion, Refuse(500, "InternalError")),
        (is_put_of("/upload.json"), LoseAnswer()),
        (is_put_of("/time_index"), LoseAnswer()),
        (is_put_of("/manifest.json"), LoseAnswer()),
        (is_put_of("/manifest.json"), Reset()),
    ],
)
def test_copy_succeeds_when_one_request_fails_in_passing(
    plane: Plane, matches: Callable[[S3Request], bool], fault: Fault
) -> None:
    segment = Segment(make_metadata(), IN_PARTS)
    plane.proxy.rule = once(lambda request: fault if matches(request) else None)
    copy(plane, segment)
    fetch(plane, segment)
    assert unfinished_uploads(plane, segment) == set()
    assert named_uploads(plane) == set()


@pytest.mark.parametrize("fault", [Truncate(3_000_000), Reset(), Refuse(503, "SlowDown")])
def test_fetch_gives_every_byte_when_one_answer_breaks_off(plane: Plane, fault: Fault) -> None:
    segment = segment_for(plane, CASES["fetch"])
    plane.proxy.rule = once(lambda request: fault if request.key.endswith("/log") else None)
    fetch(plane, segment)


@pytest.mark.parametrize("name", ["/upload.json", "/time_index", "/log", "/manifest.json"])
def test_copy_that_fails_for_good_leaves_only_what_can_be_continued(plane: Plane, name: str) -> None:
    segment = Segment(make_metadata(), IN_PARTS)
    plane.proxy.rule = lambda request: (
        Refuse(500, "InternalError") if request.method in {"PUT", "POST"} and request.key.endswith(name) else None
    )
    refused(lambda: copy(plane, segment), UNAVAILABLE, "STORAGE_UNAVAILABLE")
    assert unfinished_uploads(plane, segment) <= named_uploads(plane)
    plane.behave()
    copy(plane, segment)
    fetch(plane, segment)
    assert unfinished_uploads(plane, segment) == set()


def test_trouble_again_and_again_leaves_neither_threads_nor_file_handles(plane: Plane) -> None:
    segments = {name: segment_for(plane, case) for name, case in CASES.items()}

    def trouble() -> None:
        for fault, timeout_s in ((Reset(), PATIENCE_S), (Stall(), 0.3)):
            for name in ("copy_in_parts", "fetch", "index"):
                plane.proxy.rule = always(fault)
                with pytest.raises(grpc.RpcError) as failure:
                    CASES[name].call(plane, segments[name], timeout_s)
                assert failure.value.code() is DEADLINE_EXCEEDED or error_info(failure.value).reason
                plane.behave()
        for name in ("copy_in_parts", "fetch", "index"):
            CASES[name].call(plane, segments[name], PATIENCE_S)
            segments["copy_in_parts"] = Segment(make_metadata(), IN_PARTS)

    trouble()
    threads, open_files = plane.threads(), plane.open_files()
    for _ in range(2):
        trouble()
    wait_until(lambda: plane.threads() <= threads and plane.open_files() <= open_files)
