"""What both planes' gRPC servers share: transport options, health, reflection, and listening."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2

from tiergate_server.addresses import Address
from tiergate_server.supervisor.shared_port import cannot_listen

METADATA_SERVICES = (
    "tiergate.v1.RemoteLogMetadataService",
    "tiergate.v1.AdminService",
    "tiergate.v1.ServerInfoService",
)
SEGMENTS_SERVICES = (
    "tiergate.v1.RemoteStorageService",
    "tiergate.v1.RecordService",
    "tiergate.v1.ServerInfoService",
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def server_options(*, message_bytes: int, is_port_shared: bool = False) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", -1),
        # Otherwise two servers share a port without a word; if they shall, somebody has proven it free (SharedPort).
        ("grpc.so_reuseport", int(is_port_shared)),
        # Clients ask every 30 s whether a silent server is still there; that is welcome.
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]


class GenericHandlers:
    """Where generated code adds services to an asynchronous server, so that their methods are found by name alone.

    A method that is registered with the server's core has a waiter of its own there, and grpc.aio looks at all of them
    for every call: with the metadata plane's methods that took as long as a lookup.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(tuple(handlers))

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Their generic handlers, which are added first, are enough."""


def listen(server: grpc.Server | grpc.aio.Server, address: str, *, setting: str) -> Address:
    """Binds the server and returns where it listens really. Raises ConfigError."""
    wanted = Address.parse(address)
    try:
        port = server.add_insecure_port(str(wanted))
    except RuntimeError:
        port = 0
    if port == 0:
        raise cannot_listen(setting, address)
    return wanted.with_port(port)


def reflected(services: tuple[str, ...]) -> list[str]:
    return [*services, health.SERVICE_NAME, "grpc.reflection.v1alpha.ServerReflection"]
