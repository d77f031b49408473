"""Whether a plane says that it serves."""

from __future__ import annotations

from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.wire import TIMEOUT_S, channel_to


def is_serving(address: str) -> bool:
    with channel_to(address) as channel:
        check = health_pb2.HealthCheckRequest(service="")
        stub: Any = health_pb2_grpc.HealthStub(channel)
        return bool(stub.Check(check, timeout=TIMEOUT_S).status == health_pb2.HealthCheckResponse.SERVING)
