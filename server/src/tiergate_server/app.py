"""Wires a plane together and runs it: the only place that knows every part."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any, Literal

import grpc
import grpc.aio
import uvloop
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry

from tiergate.v1 import admin_pb2_grpc, metadata_pb2_grpc, server_info_pb2, server_info_pb2_grpc
from tiergate_client import connect
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.addresses import Address
from tiergate_server.config import Config, ConfigError
from tiergate_server.event_logs import open_kafka_log
from tiergate_server.grpc_servers import (
    METADATA_SERVICES,
    NOT_SERVING,
    SEGMENTS_SERVICES,
    SERVING,
    GenericHandlers,
    listen,
    reflected,
    server_options,
)
from tiergate_server.kernel_warming import warm_kernels
from tiergate_server.metadata.event_log import EventLogRefused, MetadataEventLog
from tiergate_server.metadata.manager_slot import ManagerSlot
from tiergate_server.metadata.replica_life import ReplicaLife
from tiergate_server.metadata.store_binding import StoreBinding
from tiergate_server.metrics import CacheMetrics, RpcMetrics, SegmentsMetrics, describe_process, serve_metrics
from tiergate_server.metrics.replica_collector import ReplicaCollector
from tiergate_server.metrics.workers import count_as_worker, forget_counts
from tiergate_server.object_stores import open_object_stores
from tiergate_server.replica_settings import replica_settings, stores_to_bind
from tiergate_server.rpc.admin_service import AdminService
from tiergate_server.rpc.async_guard import AsyncGuard
from tiergate_server.rpc.calls import CallLimits, ConcurrencyLimit
from tiergate_server.rpc.draining import drain, drain_async
from tiergate_server.rpc.metadata_service import MetadataService
from tiergate_server.rpc.record_metadata import CallersMetadata
from tiergate_server.rpc.record_service import RecordService, record_handlers
from tiergate_server.rpc.server_info_service import AsyncServerInfoService, ServerFacts, ServerInfoService
from tiergate_server.rpc.stalls import StallGuard
from tiergate_server.rpc.storage_service import StorageService, handlers
from tiergate_server.rpc.sync_guard import SyncGuard
from tiergate_server.rpc.throttle import Throttle
from tiergate_server.rpc.upload_shares import UploadShares
from tiergate_server.segments.quota import Quota, Rates
from tiergate_server.segments.segment_cache import SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.volumes import SegmentVolumes
from tiergate_server.supervisor.lifeline import watch_lifeline
from tiergate_server.worker import Worker

_logger = logging.getLogger(__name__)

Plane = Literal["metadata", "segments"]
OnReady = Callable[[dict[str, str]], None]

# Threads beyond all limits together: for refusing further calls.
_SPARE_THREADS = 8


def run_plane(
    plane: Plane,
    config: Config,
    *,
    on_ready: OnReady,
    lifeline_fd: int | None = None,
    worker: Worker | None = None,
) -> int:
    """Serves until SIGTERM, SIGINT or the lifeline's end, then drains. `on_ready` is called once, with addresses.

    A `worker` shares the segment plane's port and its quotas. Raises ConfigError when it cannot start as configured.
    """
    if plane == "metadata":
        uvloop.run(_run_metadata(config, on_ready, lifeline_fd))
    else:
        _run_segments(config, on_ready, lifeline_fd, worker)
    return 0


async def _run_metadata(config: Config, on_ready: OnReady, lifeline_fd: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if lifeline_fd is not None:
        watch_lifeline(lifeline_fd, lambda: loop.call_soon_threadsafe(stop.set))
    stopping = asyncio.create_task(stop.wait())

    with ExitStack() as resources:
        slot = ManagerSlot()
        life = ReplicaLife(partial(_open_event_log, config), slot, replica_settings(config))
        binding = StoreBinding(stores_to_bind(config), lambda: life.served_log)
        registry = CollectorRegistry()
        registry.register(ReplicaCollector(lambda: life.follower))
        calls = ConcurrencyLimit("concurrent_calls", config.metadata.limits.concurrent_calls)
        server, address = _metadata_server(config, life, slot, binding, AsyncGuard(calls, RpcMetrics(registry)))
        health_service = health.aio.HealthServicer()
        handlers: Any = GenericHandlers(server)
        health_pb2_grpc.add_HealthServicer_to_server(health_service, handlers)
        metrics_address = _start_metrics(resources, registry, config.metadata.metrics, plane="metadata")
        await _set_health(health_service, NOT_SERVING)
        await server.start()
        living = asyncio.create_task(life.run())
        serving = asyncio.create_task(_tell_health(health_service, slot))
        bound = asyncio.create_task(binding.run())
        ready = asyncio.create_task(_tell_ready(slot, on_ready, str(address), metrics_address))
        await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, ready, bound):
            task.cancel()
        _logger.info("draining the metadata plane")
        await health_service.enter_graceful_shutdown()
        if life.follower is not None:
            life.follower.watches.end_all("this replica is stopping")
        await drain_async(server, calls, seconds=config.drain_seconds)
        living.cancel()
        with suppress(asyncio.CancelledError):
            await living  # raises why it ended, if it ended by itself


async def _tell_health(service: health.aio.HealthServicer, slot: ManagerSlot) -> None:
    while True:
        await _set_health(service, SERVING if slot.is_filled else NOT_SERVING)
        await slot.changed()


async def _tell_ready(slot: ManagerSlot, on_ready: OnReady, address: str, metrics_address: str) -> None:
    while not slot.is_filled:
        await slot.changed()
    # What was replayed or restored is no garbage: with a million segments, each full collection took 60 ms to see it.
    gc.freeze()
    on_ready({"plane": "metadata", "address": address, "metrics": metrics_address})


def _metadata_server(
    config: Config, life: ReplicaLife, slot: ManagerSlot, binding: StoreBinding, guard: AsyncGuard
) -> tuple[grpc.aio.Server, Address]:
    settings, limits = config.metadata, config.metadata.limits
    server = grpc.aio.server(
        interceptors=[guard],
        options=server_options(message_bytes=limits.message_bytes),
    )
    address = listen(server, settings.listen, setting="metadata.listen")
    facts = ServerFacts(
        version=version("tiergate-server"),
        plane=server_info_pb2.PLANE_METADATA,
        backend=config.metadata_backend,
        limits=asdict(limits),
        metadata_address=_advertised(settings.advertise, str(address)),
        segments_address=_advertised(config.segments.advertise, config.segments.listen),
        features=("follow",) if settings.mode == "follow" else (),
    )
    handlers: Any = GenericHandlers(server)
    metadata_pb2_grpc.add_RemoteLogMetadataServiceServicer_to_server(
        MetadataService(slot, page_size=limits.page_size), handlers
    )
    admin_pb2_grpc.add_AdminServiceServicer_to_server(AdminService(life, slot), handlers)
    server_info_pb2_grpc.add_ServerInfoServiceServicer_to_server(
        AsyncServerInfoService(
            facts,
            is_ready=lambda: slot.is_filled,
            log_id=lambda: None if life.log is None else life.log.log_id,
            warnings=lambda: binding.warnings,
        ),
        handlers,
    )
    reflection.enable_server_reflection(reflected(METADATA_SERVICES), handlers)
    return server, address


def _run_segments(config: Config, on_ready: OnReady, lifeline_fd: int | None, worker: Worker | None) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    orphaned = threading.Event()

    def stop_as_an_orphan() -> None:
        orphaned.set()
        stop.set()

    if lifeline_fd is not None:
        watch_lifeline(lifeline_fd, stop_as_an_orphan)

    with ExitStack() as resources:
        if worker is not None:
            count_as_worker(worker.number, worker.counts_directory)
            resources.callback(lambda: forget_counts(worker.counts_directory) if orphaned.is_set() else None)
        registry = CollectorRegistry()
        stalls = StallGuard(config.segments.stall_seconds)
        resources.callback(stalls.close)
        calls = ConcurrencyLimit("concurrent_calls", config.segments.limits.concurrent_calls)
        server, address = _segments_server(
            resources, config, calls=calls, stalls=stalls, registry=registry, worker=worker
        )
        health_service = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
        for name in ("", *SEGMENTS_SERVICES):
            health_service.set(name, SERVING)
        metrics_address = _start_metrics(resources, registry, config.segments.metrics, plane="segments")
        server.start()
        on_ready({"plane": "segments", "address": str(address), "metrics": metrics_address})
        resources.callback(warm_kernels(worker))
        stop.wait()
        _logger.info("draining the segment plane")
        health_service.enter_graceful_shutdown()
        drain(server, calls, seconds=config.drain_seconds)


def _segments_server(
    resources: ExitStack,
    config: Config,
    *,
    calls: ConcurrencyLimit,
    stalls: StallGuard,
    registry: CollectorRegistry,
    worker: Worker | None,
) -> tuple[grpc.Server, Address]:
    settings, limits = config.segments, config.segments.limits
    call_limits = CallLimits(calls)
    threads = sum(call_limits.values().values()) + _SPARE_THREADS
    volumes = _open_volumes(resources, config, registry, threads=threads)
    metrics = SegmentsMetrics(registry)
    throttle = _throttle(config, metrics, shares=1 if worker is None else worker.count)
    records = _record_service(resources, config, volumes, throttle, metrics)
    service = StorageService(
        volumes,
        uploads=ConcurrencyLimit("uploads", limits.uploads),
        upload_shares=UploadShares(uploads=limits.uploads, index_bytes=limits.upload_index_bytes),
        downloads=ConcurrencyLimit("downloads", limits.downloads),
        throttle=throttle,
        chunk_bytes=limits.chunk_bytes,
        page_size=limits.page_size,
        batch_indexes=limits.batch_indexes,
        message_bytes=limits.message_bytes,
        metrics=metrics,
    )
    server = grpc.server(
        ThreadPoolExecutor(threads, thread_name_prefix="call"),
        handlers=[handlers(service), record_handlers(records)],
        interceptors=[SyncGuard(call_limits, stalls=stalls, metrics=RpcMetrics(registry))],
        options=server_options(message_bytes=limits.message_bytes, is_port_shared=worker is not None),
    )
    address = listen(server, settings.listen, setting="segments.listen")
    facts = ServerFacts(
        version=version("tiergate-server"),
        plane=server_info_pb2.PLANE_SEGMENTS,
        backend=config.segments_backend,
        limits=asdict(limits) | call_limits.values() | throttle.limits(),
        metadata_address=_advertised(config.metadata.advertise, config.metadata.listen),
        segments_address=_advertised(settings.advertise, str(address)),
        features=(
            *(("direct",) if volumes.offers_urls() else ()),
            *(("records",) if _metadata_target(config) else ()),
        ),
    )
    server_info_pb2_grpc.add_ServerInfoServiceServicer_to_server(
        ServerInfoService(facts, is_ready=lambda: True), server
    )
    reflection.enable_server_reflection(reflected(SEGMENTS_SERVICES), server)
    return server, address


def _record_service(
    resources: ExitStack, config: Config, volumes: SegmentVolumes, throttle: Throttle, metrics: SegmentsMetrics
) -> RecordService:
    limits = config.segments.limits
    target = _metadata_target(config)
    connection = resources.enter_context(connect(target)) if target else None
    return RecordService(
        volumes,
        metadata=CallersMetadata(connection, address=target),
        reads=ConcurrencyLimit("record_reads", limits.record_reads),
        plan_splits=limits.plan_splits,
        throttle=throttle,
        chunk_bytes=limits.chunk_bytes,
        message_bytes=limits.message_bytes,
        metrics=metrics,
    )


def _metadata_target(config: Config) -> str:
    """Where the segment plane asks for metadata; empty: nobody said so."""
    if config.segments.metadata_target:
        return config.segments.metadata_target
    address = Address.parse(config.metadata.advertise or config.metadata.listen)
    return str(address.to_connect_from_here()) if address.port else ""


def _open_volumes(resources: ExitStack, config: Config, registry: CollectorRegistry, *, threads: int) -> SegmentVolumes:
    settings, limits = config.segments, config.segments.limits
    stores = open_object_stores(config, threads=threads)
    for store in stores.values():
        resources.callback(store.close)
    cache_metrics = CacheMetrics(registry)
    volumes = {
        name: SegmentStorage(
            store,
            name=name,
            index_bytes=limits.index_bytes,
            url_seconds=limits.url_seconds,
            cache=SegmentCache(settings.cache_bytes // len(stores), observer=cache_metrics.of(name)),
        )
        for name, store in stores.items()
    }
    default = config.default_store.name
    return SegmentVolumes(volumes, store_of_topic=lambda topic: settings.topic_stores.get(topic, default))


def _throttle(config: Config, metrics: SegmentsMetrics, *, shares: int) -> Throttle:
    quota = config.segments.quota
    quota_of = partial(Quota, monotonic_s=time.monotonic, sleep=time.sleep, shares=shares)
    copy_rates = Rates(
        total=quota.copy_bytes_per_second,
        each_topic=quota.topic_copy_bytes_per_second,
        of_topic=quota.topic_copy_overrides,
    )
    fetch_rates = Rates(
        total=quota.fetch_bytes_per_second,
        each_topic=quota.topic_fetch_bytes_per_second,
        of_topic=quota.topic_fetch_overrides,
    )
    return Throttle(
        copy=quota_of("copy", copy_rates),
        fetch=quota_of("fetch", fetch_rates, longest_wait_s=quota.fetch_wait_seconds),
        metrics=metrics,
    )


def _open_event_log(config: Config) -> MetadataEventLog:
    """Raises ConfigError when it never will open, MetadataLogUnavailable when it may later."""
    database = config.metadata_database
    try:
        if database is not None:
            return EmbeddedEventLog(database)
        if config.metadata.log.startswith("kafka://"):
            return open_kafka_log(config, follow=config.metadata.mode == "follow")
    except EventLogRefused as refusal:
        raise ConfigError(str(refusal)) from refusal
    return MemoryEventLog()


def _start_metrics(resources: ExitStack, registry: CollectorRegistry, address: str, *, plane: Plane) -> str:
    if not address:
        return ""
    describe_process(registry, plane=plane, version=version("tiergate-server"))
    endpoint = serve_metrics(address, registry, setting=f"{plane}.metrics")
    resources.callback(endpoint.close)
    return endpoint.address


def _advertised(configured: str, listening: str) -> str:
    """Where clients are sent: as configured, or where the plane listens, if that can be connected to."""
    return configured or str(Address.parse(listening).to_connect_from_here())


async def _set_health(service: health.aio.HealthServicer, status: int) -> None:
    for name in ("", *METADATA_SERVICES):
        await service.set(name, status)
