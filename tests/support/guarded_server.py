"""The synchronous server with its guard, in the test's own process, so that a test can hold what is behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from prometheus_client import CollectorRegistry

from support.wire import channel_to
from tiergate_server.metrics import RpcMetrics, SegmentsMetrics
from tiergate_server.rpc.calls import CallLimits, ConcurrencyLimit
from tiergate_server.rpc.record_metadata import CallersMetadata
from tiergate_server.rpc.record_service import RecordService
from tiergate_server.rpc.stalls import StallGuard
from tiergate_server.rpc.storage_service import StorageService
from tiergate_server.rpc.sync_guard import SyncGuard
from tiergate_server.rpc.throttle import Throttle
from tiergate_server.rpc.upload_shares import UploadShares
from tiergate_server.segments.quota import Quota, Rates
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.volumes import SegmentVolumes

NO_QUOTA = Rates()


def storage_service(storage: SegmentStorage, *, copy: Rates = NO_QUOTA, fetch: Rates = NO_QUOTA) -> StorageService:
    metrics = SegmentsMetrics(CollectorRegistry())
    return StorageService(
        SegmentVolumes.of(storage),
        uploads=ConcurrencyLimit("uploads", 4),
        upload_shares=UploadShares(uploads=4, index_bytes=64 * 1024 * 1024),
        downloads=ConcurrencyLimit("downloads", 4),
        throttle=Throttle(
            copy=Quota("copy", copy, monotonic_s=time.monotonic, sleep=time.sleep),
            fetch=Quota("fetch", fetch, monotonic_s=time.monotonic, sleep=time.sleep, longest_wait_s=1),
            metrics=metrics,
        ),
        chunk_bytes=2 * 1024 * 1024,
        page_size=10,
        batch_indexes=8,
        message_bytes=4 * 1024 * 1024,
        metrics=metrics,
    )


def record_service(storage: SegmentStorage) -> RecordService:
    """One that reads splits; it was not told where the metadata plane is."""
    metrics = SegmentsMetrics(CollectorRegistry())
    return RecordService(
        SegmentVolumes.of(storage),
        metadata=CallersMetadata(None, address=""),
        reads=ConcurrencyLimit("record_reads", 4),
        plan_splits=1000,
        throttle=Throttle(
            copy=Quota("copy", NO_QUOTA, monotonic_s=time.monotonic, sleep=time.sleep),
            fetch=Quota("fetch", NO_QUOTA, monotonic_s=time.monotonic, sleep=time.sleep, longest_wait_s=1),
            metrics=metrics,
        ),
        chunk_bytes=1024 * 1024,
        message_bytes=4 * 1024 * 1024,
        metrics=metrics,
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
