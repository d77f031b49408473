"""ServerInfoService on both planes: what this server is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiergate.v1 import server_info_pb2 as pb
from tiergate.v1 import server_info_pb2_grpc
from tiergate_client.ids import LogId

if TYPE_CHECKING:
    import grpc
    import grpc.aio


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a plane says about itself."""

    version: str
    plane: pb.Plane.ValueType
    backend: str
    limits: Mapping[str, int]
    metadata_address: str
    segments_address: str
    features: tuple[str, ...] = ()


class ServerInfoService(server_info_pb2_grpc.ServerInfoServiceServicer):
    def __init__(
        self,
        facts: ServerFacts,
        *,
        is_ready: Callable[[], bool],
        log_id: Callable[[], LogId | None] = lambda: None,
        warnings: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._facts = facts
        self._is_ready = is_ready
        self._log_id = log_id
        self._warnings = warnings

    def describe(self) -> pb.GetServerInfoResponse:
        facts = self._facts
        log_id = self._log_id()
        return pb.GetServerInfoResponse(
            version=facts.version,
            plane=facts.plane,
            backend=facts.backend,
            limits=facts.limits,
            features=facts.features,
            metadata_address=facts.metadata_address,
            segments_address=facts.segments_address,
            ready=self._is_ready(),
            log_id=b"" if log_id is None else log_id.raw,
            warnings=self._warnings(),
        )

    def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> pb.GetServerInfoResponse:
        return self.describe()


class AsyncServerInfoService(server_info_pb2_grpc.ServerInfoServiceServicer):
    """The same on the asynchronous server."""

    def __init__(
        self,
        facts: ServerFacts,
        *,
        is_ready: Callable[[], bool],
        log_id: Callable[[], LogId | None],
        warnings: Callable[[], Sequence[str]],
    ) -> None:
        self._service = ServerInfoService(facts, is_ready=is_ready, log_id=log_id, warnings=warnings)

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetServerInfoResponse:
        return self._service.describe()
