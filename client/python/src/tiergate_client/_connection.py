"""The client's front door: one address, both interfaces, and what an operator asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, get_args

import grpc

from tiergate.v1 import server_info_pb2 as pb
from tiergate.v1 import server_info_pb2_grpc
from tiergate_client._admin import Admin
from tiergate_client._channels import Channels
from tiergate_client._direct_storage import DirectStorage
from tiergate_client._metadata import GrpcMetadata
from tiergate_client._records import GrpcRecords
from tiergate_client._storage import GrpcStorage
from tiergate_client._tokens import TokenKeeper
from tiergate_client.errors import InvalidField, Unavailable
from tiergate_client.ids import LogId
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.status import from_rpc_error
from tiergate_client.values import ConsistencyToken

Plane = Literal["metadata", "segments"]
Access = Literal["service", "direct", "auto"]

# grpc.health.v1.HealthCheckResponse{status: SERVING}: the health package is not worth a dependency for two bytes.
_SERVING = b"\x08\x01"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a plane says about itself."""

    version: str
    plane: Plane
    backend: str
    limits: Mapping[str, int]
    features: tuple[str, ...]
    metadata_address: str
    segments_address: str
    ready: bool
    log_id: LogId | None
    warnings: tuple[str, ...]
    """What an operator should look at."""


class MetadataView:
    """Metadata, and the token of all that was seen through it."""

    def __init__(self, metadata: RemoteLogMetadata, tokens: TokenKeeper) -> None:
        self.metadata = metadata
        self._tokens = tokens

    @property
    def token(self) -> ConsistencyToken | None:
        return self._tokens.token


class Tiergate:
    """A connection to Tiergate, opened when it is first used. Threads may share it; it may be carried over a fork."""

    def __init__(
        self, target: str, *, segments: str | None, timeout_s: float, stream_timeout_s: float, access: Access
    ) -> None:
        if access not in get_args(Access):
            raise InvalidField.of("access", f"{access!r} is none of {', '.join(get_args(Access))}")
        self._target = target
        self._segments = segments
        self._timeout_s = timeout_s
        self._channels = Channels()
        tokens = TokenKeeper()
        self.metadata: RemoteLogMetadata = GrpcMetadata(
            self._channels, target=target, timeout_s=timeout_s, tokens=tokens
        )
        self.admin = Admin(self._channels, target=target, timeout_s=timeout_s)
        self._direct: DirectStorage | None = None
        segment_plane = partial(self._address, "segments")
        self.records = GrpcRecords(
            self._channels,
            target=segment_plane,
            tokens=tokens,
            timeout_s=timeout_s,
            stream_timeout_s=stream_timeout_s,
        )
        if access == "service":
            self.storage: RemoteStorage = GrpcStorage(
                self._channels, target=segment_plane, timeout_s=timeout_s, stream_timeout_s=stream_timeout_s
            )
        else:
            self.storage = self._direct = DirectStorage(
                self._channels,
                target=segment_plane,
                timeout_s=timeout_s,
                stream_timeout_s=stream_timeout_s,
                falls_back=access == "auto",
            )

    def metadata_since(self, token: ConsistencyToken | None, *, timeout_s: float) -> MetadataView:
        """The metadata as whoever holds the token may see it, apart from what this connection has seen.

        For services that ask on behalf of others: each caller's token goes with its own questions.
        """
        tokens = TokenKeeper()
        if token is not None:
            tokens.received(token)
        metadata = GrpcMetadata(self._channels, target=self._target, timeout_s=timeout_s, tokens=tokens)
        return MetadataView(metadata, tokens)

    def server_info(self, plane: Plane = "metadata") -> ServerInfo:
        stub = server_info_pb2_grpc.ServerInfoServiceStub(self._channels.to(self._address(plane)))
        try:
            answer = stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=self._timeout_s)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from failure
        return ServerInfo(
            version=answer.version,
            plane="metadata" if answer.plane == pb.PLANE_METADATA else "segments",
            backend=answer.backend,
            limits=dict(answer.limits),
            features=tuple(answer.features),
            metadata_address=answer.metadata_address,
            segments_address=answer.segments_address,
            ready=answer.ready,
            log_id=LogId(answer.log_id) if answer.log_id else None,
            warnings=tuple(answer.warnings),
        )

    def health(self, plane: Plane = "metadata") -> bool:
        """Whether the plane says that it serves."""
        check: Any = self._channels.to(self._address(plane)).unary_unary("/grpc.health.v1.Health/Check")
        try:
            answer: bytes = check(b"", timeout=self._timeout_s)
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from failure
        return answer == _SERVING

    def close(self) -> None:
        if self._direct is not None:
            self._direct.close()
        self._channels.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _address(self, plane: Plane) -> str:
        if plane == "metadata":
            return self._target
        if self._segments is None:
            address = self.server_info("metadata").segments_address
            if not address:
                raise Unavailable(f"{self._target} does not say where the segment plane is; name it with segments=")
            self._segments = address
        return self._segments


def connect(
    target: str,
    *,
    segments: str | None = None,
    timeout_s: float = 30.0,
    stream_timeout_s: float = 3600.0,
    access: Access = "service",
) -> Tiergate:
    """A client of the metadata plane at `target` (host:port, or any gRPC target such as dns:///name:port).

    The segment plane's address is learned from it unless `segments` names it. `timeout_s` bounds every call, and how
    long a stream that broke is tried again; `stream_timeout_s` bounds a whole copy or download. Nothing is opened
    before it is used.

    `access` says how logs, and indexes asked for one by one, are read: through the service; "direct", straight from
    the store with URLs that the service gives (NotOffered when it cannot); or "auto", directly where that works and
    through the service otherwise. What is read is verified alike.
    """
    return Tiergate(target, segments=segments, timeout_s=timeout_s, stream_timeout_s=stream_timeout_s, access=access)
