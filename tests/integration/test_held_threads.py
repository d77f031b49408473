"""The segment plane under clients that open calls and then say nothing: they never hold all of its threads."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.health import is_serving
from support.metrics import calls_in_flight
from support.planes import Planes, running_planes
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, error_info, refused
from tiergate.v1 import server_info_pb2, server_info_pb2_grpc

MANIFEST = "/tiergate.v1.RemoteStorageService/GetSegmentManifest"
FETCH = "/tiergate.v1.RemoteStorageService/FetchSegment"
SERVER_INFO = "/tiergate.v1.ServerInfoService/GetServerInfo"
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

INVALID, CANCELLED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.CANCELLED
HEALTH_CALLS, REFLECTION_CALLS = 32, 8


class SilentCalls:
    """Calls that send headers and then nothing."""

    def __init__(self, channel: grpc.Channel, *methods: str) -> None:
        self._over = threading.Event()
        opened: Any = [channel.stream_stream(method) for method in methods]
        self._calls = [call(self._nothing(), timeout=60) for call in opened]

    def ends(self) -> Counter[str]:
        """How each call ended: by the limit that refused it, or by its code."""
        wait_until(lambda: all(call.done() for call in self._calls))
        self._over.set()
        return Counter(_end_of(call) for call in self._calls)

    def _nothing(self) -> Iterator[bytes]:
        self._over.wait(60)
        yield from ()


def _end_of(call: Any) -> str:
    if call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return str(error_info(call).metadata["limit"])
    return str(call.code().name)


def server_info(channel: grpc.Channel) -> server_info_pb2.GetServerInfoResponse:
    stub = server_info_pb2_grpc.ServerInfoServiceStub(channel)
    return stub.GetServerInfo(server_info_pb2.GetServerInfoRequest(), timeout=TIMEOUT_S)


def test_silent_calls_leave_health_alone_and_are_ended_when_they_stall(tmp_path: Path) -> None:
    with (
        running_planes(
            tmp_path,
            segments__limits__concurrent_calls="3",
            segments__stall_seconds="3",
            segments__metrics="127.0.0.1:0",
        ) as planes,
        channel_to(planes.segments.address) as channel,
    ):
        silent = SilentCalls(channel, *[MANIFEST] * 20, *[FETCH] * 20, *[SERVER_INFO] * 20, *[REFLECTION] * 40)
        wait_until(lambda: calls_in_flight(planes.segments) == 3 + REFLECTION_CALLS)
        assert is_serving(planes.segments.address)
        assert silent.ends() == {
            "concurrent_calls": 57,
            "reflection_calls": 40 - REFLECTION_CALLS,
            CANCELLED.name: 3 + REFLECTION_CALLS,
        }
        wait_until(lambda: calls_in_flight(planes.segments) == 0)
        assert server_info(channel).limits["reflection_calls"] == REFLECTION_CALLS


@pytest.mark.parametrize("method", [CHECK, WATCH])
def test_silent_health_calls_are_limited_and_ended_when_they_stall(tmp_path: Path, method: str) -> None:
    with (
        running_planes(
            tmp_path, segments__limits__concurrent_calls="1", segments__stall_seconds="1", segments__limits__uploads="1"
        ) as planes,
        channel_to(planes.segments.address) as channel,
    ):
        silent = SilentCalls(channel, *[method] * 60)
        assert server_info(channel).ready, "which has a limit of its own"
        assert silent.ends() == {"health_calls": 60 - HEALTH_CALLS, CANCELLED.name: HEALTH_CALLS}
        assert is_serving(planes.segments.address)


def test_many_health_watches_hold_neither_threads_nor_places(tmp_path: Path) -> None:
    with running_planes(tmp_path, drain_seconds="1") as planes, channel_to(planes.segments.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watches = []
        for _ in range(300):
            watches.append(stub.Watch(health_pb2.HealthCheckRequest(), timeout=60))
            assert next(watches[-1]).status == health_pb2.HealthCheckResponse.SERVING
        assert is_serving(planes.segments.address)
        assert server_info(channel).ready
        planes.segments.signal(signal.SIGTERM)
        assert {next(watch).status for watch in watches} == {health_pb2.HealthCheckResponse.NOT_SERVING}


@pytest.mark.parametrize("method", [MANIFEST, FETCH, SERVER_INFO, CHECK, WATCH])
def test_call_without_a_message_or_with_garbage_is_refused(planes: Planes, method: str) -> None:
    with channel_to(planes.segments.address) as channel:
        call: Any = channel.stream_stream(method)
        for messages in ([], [b"\xff\xff"]):
            details = refused(lambda: list(call(iter(messages), timeout=TIMEOUT_S)), INVALID, "INVALID_FIELD")  # noqa: B023
            assert details["field"] == "message"
