"""What the asynchronous server's guard makes of behaviours that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from support.wire import TIMEOUT_S
from tiergate_client.errors import InternalError
from tiergate_client.status import from_rpc_error
from tiergate_server.metrics import RpcMetrics
from tiergate_server.rpc.async_guard import AsyncGuard
from tiergate_server.rpc.calls import ConcurrencyLimit


async def fails(request: bytes, context: Any) -> bytes:
    raise ValueError("the secret of 10.0.0.1")


async def fails_in_the_middle(request: bytes, context: Any) -> AsyncIterator[bytes]:
    yield b"first"
    raise ValueError("the secret of 10.0.0.1")


FAILING = grpc.method_handlers_generic_handler(
    "test.Failing",
    {
        "Unary": grpc.unary_unary_rpc_method_handler(fails),
        "Download": grpc.unary_stream_rpc_method_handler(fails_in_the_middle),
    },
)


async def call_failing(method: str) -> grpc.RpcError:
    guard = AsyncGuard(ConcurrencyLimit("concurrent_calls", 4), RpcMetrics(CollectorRegistry()))
    server = grpc.aio.server(handlers=[FAILING], interceptors=[guard])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_stream(f"/test.Failing/{method}")
            with pytest.raises(grpc.RpcError) as failure:
                async for _ in call(b"", timeout=TIMEOUT_S):
                    pass
            return failure.value
    finally:
        await server.stop(None)


@pytest.mark.parametrize("method", ["Unary", "Download"])
def test_unforeseen_failure_goes_out_as_an_incident_that_the_log_has(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        failure = asyncio.run(call_failing(method))
    error = from_rpc_error(failure)
    assert isinstance(error, InternalError)
    assert "secret" not in error.message
    (record,) = [record for record in caplog.records if error.details["incident"] in record.getMessage()]
    assert f"/test.Failing/{method}" in record.getMessage()
    assert record.exc_info is not None
    assert "the secret of 10.0.0.1" in str(record.exc_info[1])
