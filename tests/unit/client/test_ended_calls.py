"""A streamed call that is given up: gRPC's thread is through with it when `end_call` returns."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tiergate_client._ended_calls import end_call

_METHOD = "/tests.Streams/Stream"


class Streams(grpc.GenericRpcHandler):
    """Streams as many messages as the request says."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return grpc.unary_stream_rpc_method_handler(_stream) if handler_call_details.method == _METHOD else None


def _stream(request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
    yield from [b"message"] * int(request)


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Streams()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    server.stop(grace=None).wait()


def begun(channel: grpc.Channel, messages: int) -> Any:
    return channel.unary_stream(_METHOD)(b"%d" % messages)  # type: ignore[arg-type]


@pytest.mark.parametrize("read", range(3))
def test_call_in_the_middle_of_its_stream_is_let_go_of(channel: grpc.Channel, read: int) -> None:
    call = begun(channel, 1_000_000)
    for _ in range(read):
        next(call)
    end_call(call)
    assert not call.add_callback(lambda: None), "gRPC has still work to do for this call"
    assert call.code() is grpc.StatusCode.CANCELLED


def test_call_that_is_over_keeps_its_end(channel: grpc.Channel) -> None:
    call = begun(channel, 2)
    assert len(list(call)) == 2
    end_call(call)
    assert call.code() is grpc.StatusCode.OK


def test_call_that_was_ended_may_be_ended_again(channel: grpc.Channel) -> None:
    call = begun(channel, 1_000_000)
    end_call(call)
    end_call(call)
    assert call.cancelled()
