"""The synchronous server with its guard, in the test's own process, so that a test can hold what is behind it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from prometheus_client import CollectorRegistry

from support.wire import channel_to
from tiergate_server.metrics import RpcMetrics, SegmentsMetrics
from tiergate_server.rpc.calls import CallLimits, ConcurrencyLimit
from tiergate_server.rpc.stalls import StallGuard
from tiergate_server.rpc.storage_service import StorageService
from tiergate_server.rpc.sync_guard import SyncGuard
from tiergate_server.segments.segment_storage import SegmentStorage


def storage_service(storage: SegmentStorage) -> StorageService:
    return StorageService(
        storage,
        uploads=ConcurrencyLimit("uploads", 4),
        chunk_bytes=2 * 1024 * 1024,
        metrics=SegmentsMetrics(CollectorRegistry()),
    )


@contextmanager
def guarded_server(handler: grpc.GenericRpcHandler, *, stall_seconds: float = 60) -> Iterator[grpc.Channel]:
    stalls = StallGuard(stall_seconds)
    guard = SyncGuard(
        CallLimits(ConcurrencyLimit("concurrent_calls", 4)), stalls=stalls, metrics=RpcMetrics(CollectorRegistry())
    )
    server = grpc.server(ThreadPoolExecutor(24), handlers=[handler], interceptors=[guard])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with channel_to(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        server.stop(0).wait()
        stalls.close()
