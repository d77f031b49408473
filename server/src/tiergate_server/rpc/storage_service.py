"""RemoteStorageService on the segment plane: messages in, storage, messages out.

What carries segment data is passed as raw messages, framed by hand (tiergate_client.framing).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import types_pb2
from tiergate_client import framing
from tiergate_client.checksums import crc32c_appended
from tiergate_client.conversions import (
    file_from_proto,
    inside,
    manifest_from_proto,
    manifest_to_proto,
    metadata_from_proto,
)
from tiergate_client.errors import InvalidField, LimitExceeded
from tiergate_client.segment_files import SegmentManifest
from tiergate_server.metrics import SegmentsMetrics
from tiergate_server.rpc.calls import ConcurrencyLimit
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.verified_blocks import VerifiedPiece

_HEADER, _CHUNK, _FINISH = 1, 2, 3
_NOTHING = VerifiedPiece(b"", 0)


class StorageService:
    def __init__(
        self,
        storage: SegmentStorage,
        *,
        uploads: ConcurrencyLimit,
        chunk_bytes: int,
        metrics: SegmentsMetrics,
    ) -> None:
        self._storage = storage
        self._uploads = uploads
        self._chunk_bytes = chunk_bytes
        self._metrics = metrics

    def copy_segment(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> pb.CopySegmentResponse:
        with self._uploads.slot():
            session = self._storage.begin_copy(_header(next(messages, b"")))
            if isinstance(session, bytes):
                return pb.CopySegmentResponse(custom_metadata=session)
            try:
                for message in messages:
                    fields = _fields(message)
                    if _CHUNK in fields:
                        self._write(session, framing.parse_fields(framing.buffer(fields, _CHUNK)))
                    elif _FINISH in fields:
                        _require_end(messages)
                        return pb.CopySegmentResponse(custom_metadata=session.finish(is_wanted=context.is_active))
                    else:
                        raise InvalidField.of("message", "after the header come chunks, then finish")
            except framing.MalformedMessage as complaint:
                raise InvalidField.of("chunk", str(complaint)) from None
            finally:
                session.abort()
        raise InvalidField.of("message", "the stream ended without finish: nothing was stored")

    def _write(self, session: CopySession, chunk: framing.Fields) -> None:
        data = framing.buffer(chunk, 15)
        self._metrics.received_bytes.inc(len(data))
        if len(data) > self._chunk_bytes:
            raise LimitExceeded.of(
                "chunk_bytes",
                self._chunk_bytes,
                f"a chunk of {len(data)} bytes is above the limit of {self._chunk_bytes}",
            )
        with inside("chunk"):
            session.write(
                file_from_proto(framing.number(chunk, 1)), framing.number(chunk, 2), data, framing.number(chunk, 3)
            )

    def fetch_segment(self, request: pb.FetchSegmentRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
        metadata = metadata_from_proto(request.metadata, "metadata")
        length = request.length if request.HasField("length") else None
        position, stream_checksum = request.offset, 0
        with self._storage.fetch_verified(metadata, offset=request.offset, length=length) as verified:
            pieces = iter(verified)
            piece = next(pieces, _NOTHING)
            while True:
                following = next(pieces, None)
                stream_checksum = crc32c_appended(stream_checksum, piece.data, piece.crc32c)
                yield framing.frame_fetched_chunk(
                    offset=position,
                    crc32c=piece.crc32c,
                    stream_crc32c=stream_checksum if following is None else None,
                    data=piece.data,
                )
                self._metrics.sent_bytes.inc(len(piece.data))
                if following is None:
                    return
                position += len(piece.data)
                piece = following

    def fetch_index(self, request: pb.FetchIndexRequest, context: grpc.ServicerContext) -> bytes:
        piece = self._storage.fetch_index_piece(
            metadata_from_proto(request.metadata, "metadata"),
            file_from_proto(request.file),
            offset=request.offset,
            max_bytes=self._chunk_bytes,
        )
        self._metrics.sent_bytes.inc(len(piece.data))
        return framing.frame_index_piece(size_bytes=piece.whole.size_bytes, crc32c=piece.whole.crc32c, data=piece.data)

    def delete_segment(
        self, request: pb.DeleteSegmentRequest, context: grpc.ServicerContext
    ) -> pb.DeleteSegmentResponse:
        self._storage.delete_segment(metadata_from_proto(request.metadata, "metadata"))
        return pb.DeleteSegmentResponse()

    def get_segment_manifest(
        self, request: pb.GetSegmentManifestRequest, context: grpc.ServicerContext
    ) -> pb.GetSegmentManifestResponse:
        manifest = self._storage.get_manifest(metadata_from_proto(request.metadata, "metadata"))
        return pb.GetSegmentManifestResponse(manifest=manifest_to_proto(manifest))


def handlers(service: StorageService) -> grpc.GenericRpcHandler:
    """The service for a server. Not the generated registration: messages with segment data stay raw."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "CopySegment": grpc.stream_unary_rpc_method_handler(
            service.copy_segment, response_serializer=pb.CopySegmentResponse.SerializeToString
        ),
        "FetchSegment": grpc.unary_stream_rpc_method_handler(
            service.fetch_segment, request_deserializer=pb.FetchSegmentRequest.FromString
        ),
        "FetchIndex": grpc.unary_unary_rpc_method_handler(
            service.fetch_index, request_deserializer=pb.FetchIndexRequest.FromString
        ),
        "DeleteSegment": grpc.unary_unary_rpc_method_handler(
            service.delete_segment,
            request_deserializer=pb.DeleteSegmentRequest.FromString,
            response_serializer=pb.DeleteSegmentResponse.SerializeToString,
        ),
        "GetSegmentManifest": grpc.unary_unary_rpc_method_handler(
            service.get_segment_manifest,
            request_deserializer=pb.GetSegmentManifestRequest.FromString,
            response_serializer=pb.GetSegmentManifestResponse.SerializeToString,
        ),
    }
    return grpc.method_handlers_generic_handler("tiergate.v1.RemoteStorageService", methods)


def _header(message: bytes) -> SegmentManifest:
    fields = _fields(message)
    if _HEADER not in fields:
        raise InvalidField.of("message", "the first message is the header")
    try:
        header = types_pb2.SegmentManifest.FromString(bytes(framing.buffer(fields, _HEADER)))
    except DecodeError:
        raise InvalidField.of("header", "these bytes are no segment manifest") from None
    return manifest_from_proto(header, "header")


def _fields(message: bytes) -> framing.Fields:
    try:
        return framing.parse_fields(memoryview(message))
    except framing.MalformedMessage as complaint:
        raise InvalidField.of("message", str(complaint)) from None


def _require_end(messages: Iterator[bytes]) -> None:
    if next(messages, None) is not None:
        raise InvalidField.of("message", "nothing comes after finish")
