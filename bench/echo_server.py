"""The peer of a metadata call: the metadata plane's server and interceptor around a method that does nothing.

Started with `Method=bytes` for each method: every call of it is answered with so many bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import uvloop
from prometheus_client import CollectorRegistry

from tiergate_server.config import MetadataLimits
from tiergate_server.grpc_servers import listen, server_options
from tiergate_server.metrics import RpcMetrics
from tiergate_server.rpc.async_guard import AsyncGuard
from tiergate_server.rpc.calls import ConcurrencyLimit

SERVICE = "tiergate.bench.Echo"


def _answering(size_bytes: int) -> Callable[[bytes, Any], Awaitable[bytes]]:
    answer = bytes(size_bytes)

    async def call(_request: bytes, _context: Any) -> bytes:
        return answer

    return call


async def _serve(answer_bytes: dict[str, int], ready_fd: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    limits = MetadataLimits()
    guard = AsyncGuard(ConcurrencyLimit("concurrent_calls", limits.concurrent_calls), RpcMetrics(CollectorRegistry()))
    server = grpc.aio.server(interceptors=[guard], options=server_options(message_bytes=limits.message_bytes))
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_unary_rpc_method_handler(_answering(size)) for name, size in answer_bytes.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    address = listen(server, "127.0.0.1:0", setting="listen")
    await server.start()
    with os.fdopen(ready_fd, "w") as ready:
        ready.write(json.dumps({"address": str(address)}) + "\n")
    await stop.wait()
    await server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--ready-fd", type=int, required=True)
    arguments = parser.parse_args()
    sizes = dict(method.split("=") for method in arguments.methods)
    uvloop.run(_serve({name: int(size) for name, size in sizes.items()}, arguments.ready_fd))
