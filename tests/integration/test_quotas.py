"""Quotas on the real plane: uploads that are taken slowly, downloads that wait and come again, topics side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from support.metrics import calls_in_flight, metric
from support.planes import Planes, running_planes
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, refused, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client import SegmentFile, connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import LimitExceeded, SegmentNotFound
from tiergate_client.status import from_rpc_error

MIB, KIB = 1024 * 1024, 1024
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
# Three pieces of 1 MiB, of which the bucket holds half a piece: the last one starts when 1.5 MiB of debt are paid.
LOG_BYTES, SLOW_RATE, SLOWEST_S = 3 * MIB, 512 * KIB, 3.0


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    """Topics are free of quotas but for those that are named."""
    with running_planes(
        tmp_path_factory.mktemp("quotas"),
        segments__metrics="127.0.0.1:0",
        segments__stall_seconds="0.5",
        segments__quota__fetch_bytes_per_second=str(64 * MIB),
        segments__quota__topic_copy_overrides=f'{{"slow.in": {SLOW_RATE}}}',
        segments__quota__topic_fetch_overrides=f'{{"slow.out": {SLOW_RATE}, "crawling": {100 * KIB}}}',
    ) as running:
        yield running


def seconds_since(begin_s: float) -> float:
    return time.monotonic() - begin_s


def test_upload_over_its_quota_is_taken_slowly_and_not_as_one_that_stalls(planes: Planes) -> None:
    metadata, data = make_metadata(topic="slow.in"), make_data(log_bytes=LOG_BYTES)
    with connect(planes.target) as tiergate:
        begin_s = time.monotonic()
        tiergate.storage.copy_segment(metadata, data)
        assert seconds_since(begin_s) > 0.9 * SLOWEST_S
        with tiergate.storage.fetch_segment(metadata) as stream:
            assert stream.read() == data.log
    assert metric(planes.segments, 'tiergate_segments_throttle_seconds_total{direction="copy"}') > 0.9 * SLOWEST_S
    assert metric(planes.segments, 'tiergate_segments_throttled_bytes_total{direction="copy"}') >= 2 * MIB


def test_download_over_its_quota_pauses_as_told_and_goes_on(planes: Planes) -> None:
    metadata, data = make_metadata(topic="slow.out"), make_data(log_bytes=LOG_BYTES)
    refusals = 'tiergate_rpc_requests_total{code="RESOURCE_EXHAUSTED",method="/tiergate.v1.RemoteStorageService'
    with connect(planes.target) as tiergate:
        tiergate.storage.copy_segment(metadata, data)
        before, begin_s = metric(planes.segments, f'{refusals}/FetchSegment"}}'), time.monotonic()
        with tiergate.storage.fetch_segment(metadata) as stream:
            assert stream.read() == data.log
        assert seconds_since(begin_s) > 0.9 * SLOWEST_S
        assert metric(planes.segments, f'{refusals}/FetchSegment"}}') > before, "it was told to come again"
        assert tiergate.storage.fetch_index(metadata, SegmentFile.TIME_INDEX) == data.time_index
        assert metric(planes.segments, f'{refusals}/FetchIndex"}}') > 0, "and so was the call for the index"


def test_download_over_its_quota_is_refused_with_the_limit_and_the_time(planes: Planes) -> None:
    metadata = make_metadata(topic="crawling")
    with connect(planes.target) as tiergate, channel_to(planes.segments.address) as channel:
        tiergate.storage.copy_segment(metadata, make_data(log_bytes=LOG_BYTES))
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        stream = stub.FetchSegment(pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata)), timeout=TIMEOUT_S)
        assert len(next(stream).data) == MIB
        begin_s = time.monotonic()
        with pytest.raises(grpc.RpcError) as failure:
            next(stream)
        assert 0.5 < seconds_since(begin_s) < 5, "the server's waiting time is 1 s"
        refusal: Any = from_rpc_error(failure.value)
        assert isinstance(refusal, LimitExceeded)
        limit = {"limit": "topic_fetch_bytes_per_second.crawling", "value": str(100 * KIB)}
        assert refusal.details == limit
        assert refusal.retry_after_ms is not None
        assert 5000 < refusal.retry_after_ms < 10_000, "what is left of the 10 s that a piece of 1 MiB costs"
        index = pb.FetchIndexRequest(metadata=metadata_to_proto(metadata), file=types_pb2.SEGMENT_FILE_TIME_INDEX)
        assert refused(lambda: stub.FetchIndex(index, timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED") == limit
        assert (
            tiergate.server_info("segments").limits.items()
            >= {
                "fetch_bytes_per_second": 64 * MIB,
                "topic_fetch_bytes_per_second.crawling": 100 * KIB,
            }.items()
        )


def test_topic_over_its_quota_does_not_slow_down_another(planes: Planes) -> None:
    slow, free, data = make_metadata(topic="crawling"), make_metadata(topic="free"), make_data(log_bytes=LOG_BYTES)
    with connect(planes.target) as tiergate, channel_to(planes.segments.address) as channel:
        for metadata in (slow, free):
            tiergate.storage.copy_segment(metadata, data)
        stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
        request = pb.FetchSegmentRequest(metadata=metadata_to_proto(slow))
        waiting = [stub.FetchSegment(request, timeout=TIMEOUT_S) for _ in range(16)]
        wait_until(lambda: calls_in_flight(planes.segments) == 16)
        begin_s = time.monotonic()
        with tiergate.storage.fetch_segment(free) as stream:
            assert stream.read() == data.log
        assert seconds_since(begin_s) < 0.9, "less than those wait"
        for call in waiting:
            call.cancel()


def test_cancelled_upload_stops_waiting_for_its_quota(planes: Planes) -> None:
    wait_until(lambda: calls_in_flight(planes.segments) == 0)
    metadata = make_metadata(topic="slow.in")
    messages = upload_messages(metadata, make_data(log_bytes=32 * MIB))
    with channel_to(planes.segments.address) as channel, connect(planes.target) as tiergate:
        call = storage_pb2_grpc.RemoteStorageServiceStub(channel).CopySegment.future(iter(messages), timeout=60)
        throttled = metric(planes.segments, "tiergate_segments_throttled_bytes_total")
        wait_until(lambda: metric(planes.segments, "tiergate_segments_throttled_bytes_total") > throttled)
        call.cancel()
        wait_until(lambda: calls_in_flight(planes.segments) == 0, timeout_s=1.5)
        with pytest.raises(SegmentNotFound):
            tiergate.storage.get_manifest(metadata)
