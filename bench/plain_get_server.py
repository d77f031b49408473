"""The peer of a plane that reads from S3: boto3's ranged GET of an object, in a process of its own.

Each call reads the whole object in pieces of 1 MiB and drops them. Nothing is checked, and none of it is sent on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import botocore.config
import grpc

from tiergate_server.config import SegmentsLimits
from tiergate_server.grpc_servers import listen, server_options

SERVICE = "tiergate.bench.PlainGet"
PIECE_BYTES = 1024 * 1024


def _getting(endpoint_url: str, bucket: str, size_bytes: int) -> Any:
    client: Any = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint_url,
        config=botocore.config.Config(s3={"addressing_style": "path"}, response_checksum_validation="when_required"),
    )

    def get(key: bytes, _context: grpc.ServicerContext) -> bytes:
        answer = client.get_object(Bucket=bucket, Key=key.decode(), Range=f"bytes=0-{size_bytes - 1}")
        read_bytes = 0
        while piece := answer["Body"].read(PIECE_BYTES):
            read_bytes += len(piece)
        return str(read_bytes).encode()

    return get


def _serve(endpoint_url: str, bucket: str, size_bytes: int, ready_fd: int) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    get: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        _getting(endpoint_url, bucket, size_bytes)
    )
    server = grpc.server(
        ThreadPoolExecutor(1),
        handlers=[grpc.method_handlers_generic_handler(SERVICE, {"Get": get})],
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
    parser.add_argument("endpoint_url")
    parser.add_argument("bucket")
    parser.add_argument("size_bytes", type=int)
    parser.add_argument("--ready-fd", type=int, required=True)
    arguments = parser.parse_args()
    _serve(arguments.endpoint_url, arguments.bucket, arguments.size_bytes, arguments.ready_fd)
