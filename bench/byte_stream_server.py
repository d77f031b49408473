"""The peer of the segment plane: a bare gRPC byte stream from and to files, each message a run of raw bytes.

An upload is written to the file and fsynced before it is answered. Nothing is checked, framed or named.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tiergate_server.config import SegmentsLimits
from tiergate_server.grpc_servers import listen, server_options

SERVICE = "tiergate.bench.ByteStream"
CHUNK_BYTES = 1024 * 1024


def receive(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
    """Writes what comes to the file that the call's metadata names."""
    path = next(str(value) for key, value in context.invocation_metadata() if key == "path")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for message in messages:
            os.write(handle, message)
        os.fsync(handle)
    finally:
        os.close(handle)
    return b""


def send(request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
    """Sends the file that the request names."""
    with Path(request.decode()).open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _serve(ready_fd: int) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Receive": grpc.stream_unary_rpc_method_handler(receive),
        "Send": grpc.unary_stream_rpc_method_handler(send),
    }
    server = grpc.server(
        ThreadPoolExecutor(16),
        handlers=[grpc.method_handlers_generic_handler(SERVICE, methods)],
        options=server_options(message_bytes=SegmentsLimits().message_bytes),
    )
    address = listen(server, "127.0.0.1:0", setting="listen")
    server.start()
    with os.fdopen(ready_fd, "w") as ready:
        ready.write(json.dumps({"address": str(address)}) + "\n")
    stop.wait()
    server.stop(None).wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ready-fd", type=int, required=True)
    _serve(parser.parse_args().ready_fd)
