"""RemoteStorageService on the segment plane: messages in, storage, messages out.

What carries segment data is passed as raw messages, framed by hand (tiergate_client.framing).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import ExitStack
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
    partition_from_proto,
)
from tiergate_client.errors import InvalidField, LimitExceeded
from tiergate_client.segment_files import SegmentManifest
from tiergate_client.storage_conversions import (
    progress_to_proto,
    resolved_to_proto,
    upload_to_proto,
    verification_to_proto,
)
from tiergate_server.metrics import SegmentsMetrics
from tiergate_server.rpc.calls import ConcurrencyLimit
from tiergate_server.rpc.index_batch import IndexBatch, require_batch
from tiergate_server.rpc.page_tokens import after_upload, page_limit, upload_key
from tiergate_server.rpc.throttle import Throttle
from tiergate_server.rpc.upload_shares import UploadShares
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.volumes import SegmentVolumes

_logger = logging.getLogger(__name__)

_HEADER, _CHUNK, _FINISH = 1, 2, 3


class StorageService:
    def __init__(
        self,
        volumes: SegmentVolumes,
        *,
        uploads: ConcurrencyLimit,
        upload_shares: UploadShares,
        downloads: ConcurrencyLimit,
        throttle: Throttle,
        chunk_bytes: int,
        page_size: int,
        batch_indexes: int,
        message_bytes: int,
        metrics: SegmentsMetrics,
    ) -> None:
        self._volumes = volumes
        self._uploads = uploads
        self._upload_shares = upload_shares
        self._downloads = downloads
        self._throttle = throttle
        self._chunk_bytes = chunk_bytes
        self._page_size = page_size
        self._batch_indexes = batch_indexes
        self._message_bytes = message_bytes
        self._metrics = metrics

    def copy_segment(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> pb.CopySegmentResponse:
        with self._uploads.slot(), ExitStack() as share:
            header = _header(next(messages, b""))
            share.enter_context(self._upload_shares.taken_by(header))
            session = self._volumes.begin_copy(header)
            if isinstance(session, bytes):
                return pb.CopySegmentResponse(custom_metadata=session)
            try:
                for message in messages:
                    fields = _fields(message)
                    if _CHUNK in fields:
                        chunk = framing.parse_fields(framing.buffer(fields, _CHUNK))
                        self._throttle.copying(header.metadata.partition.topic, self._chunk_size(chunk), context)
                        self._write(session, chunk)
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

    def _chunk_size(self, chunk: framing.Fields) -> int:
        size_bytes = len(framing.buffer(chunk, 15))
        self._metrics.received_bytes.inc(size_bytes)
        if size_bytes > self._chunk_bytes:
            raise LimitExceeded.of(
                "chunk_bytes",
                self._chunk_bytes,
                f"a chunk of {size_bytes} bytes is above the limit of {self._chunk_bytes}",
            )
        return size_bytes

    def _write(self, session: CopySession, chunk: framing.Fields) -> None:
        with inside("chunk"):
            session.write(
                file_from_proto(framing.number(chunk, 1)),
                framing.number(chunk, 2),
                framing.buffer(chunk, 15),
                framing.number(chunk, 3),
            )

    def get_upload(self, request: pb.GetUploadRequest, context: grpc.ServicerContext) -> pb.GetUploadResponse:
        return progress_to_proto(self._volumes.get_upload(manifest_from_proto(request.header, "header")))

    def list_uploads(self, request: pb.ListUploadsRequest, context: grpc.ServicerContext) -> pb.ListUploadsResponse:
        limit = page_limit(request.page_size, self._page_size)
        with inside("partition"):
            partition = partition_from_proto(request.partition)
        uploads = self._volumes.list_uploads(partition, after=upload_key(request.page_token))
        page = list(itertools.islice(uploads, limit))
        return pb.ListUploadsResponse(
            uploads=[upload_to_proto(upload) for upload in page],
            next_page_token=after_upload(page[-1]) if len(page) == limit else b"",
        )

    def abort_upload(self, request: pb.AbortUploadRequest, context: grpc.ServicerContext) -> pb.AbortUploadResponse:
        is_complete = self._volumes.abort_upload(metadata_from_proto(request.metadata, "metadata"))
        return pb.AbortUploadResponse(is_complete=is_complete)

    def fetch_segment(self, request: pb.FetchSegmentRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
        metadata = metadata_from_proto(request.metadata, "metadata")
        length = request.length if request.HasField("length") else None
        stream_checksum = 0
        with (
            self._downloads.slot(),
            self._volumes.holding(metadata).fetch_verified(metadata, offset=request.offset, length=length) as verified,
        ):
            while True:
                size_bytes, is_last = verified.next_bytes, verified.next_bytes == verified.left_bytes
                frame = framing.FetchedChunkFrame(offset=verified.position, data_bytes=size_bytes, is_last=is_last)
                checksum = verified.read_into(frame.data)
                stream_checksum = crc32c_appended(stream_checksum, frame.data, checksum)
                self._throttle.fetching(metadata.partition.topic, size_bytes, context)
                yield frame.finished(crc32c=checksum, stream_crc32c=stream_checksum)
                self._metrics.sent_bytes.inc(size_bytes)
                if is_last:
                    return

    def fetch_index(self, request: pb.FetchIndexRequest, context: grpc.ServicerContext) -> bytes:
        metadata = metadata_from_proto(request.metadata, "metadata")
        piece = self._volumes.holding(metadata).fetch_index_piece(
            metadata,
            file_from_proto(request.file),
            offset=request.offset,
            max_bytes=self._chunk_bytes,
        )
        self._throttle.fetching(metadata.partition.topic, len(piece.data), context)
        self._metrics.sent_bytes.inc(len(piece.data))
        return framing.frame_index_piece(size_bytes=piece.whole.size_bytes, crc32c=piece.whole.crc32c, data=piece.data)

    def batch_fetch_indexes(self, request: pb.BatchFetchIndexesRequest, context: grpc.ServicerContext) -> bytes:
        require_batch(request, batch_indexes=self._batch_indexes)
        batch = IndexBatch(
            self._volumes,
            context,
            throttle=self._throttle,
            metrics=self._metrics,
            message_bytes=self._message_bytes,
        )
        return batch.answer(request)

    def verify_segment(
        self, request: pb.VerifySegmentRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.VerifySegmentResponse]:
        metadata = metadata_from_proto(request.metadata, "metadata")
        with self._downloads.slot():
            for progress in self._volumes.holding(metadata).verify_segment(metadata):
                for damage in progress.damages:
                    self._metrics.damages.inc()
                    _logger.error(
                        "the stored %s of segment %s %s at %d",
                        damage.file.value,
                        metadata.segment_id,
                        damage.fact,
                        damage.position,
                    )
                yield verification_to_proto(progress)

    def delete_segment(
        self, request: pb.DeleteSegmentRequest, context: grpc.ServicerContext
    ) -> pb.DeleteSegmentResponse:
        self._volumes.delete_segment(metadata_from_proto(request.metadata, "metadata"))
        return pb.DeleteSegmentResponse()

    def get_segment_manifest(
        self, request: pb.GetSegmentManifestRequest, context: grpc.ServicerContext
    ) -> pb.GetSegmentManifestResponse:
        metadata = metadata_from_proto(request.metadata, "metadata")
        manifest = self._volumes.holding(metadata).get_manifest(metadata)
        return pb.GetSegmentManifestResponse(manifest=manifest_to_proto(manifest))

    def resolve_segment(
        self, request: pb.ResolveSegmentRequest, context: grpc.ServicerContext
    ) -> pb.ResolveSegmentResponse:
        metadata = metadata_from_proto(request.metadata, "metadata")
        files = {file_from_proto(file, "files") for file in request.files}
        return resolved_to_proto(
            self._volumes.holding(metadata).resolve_segment(metadata, valid_s=request.valid_seconds, files=files)
        )


def handlers(service: StorageService) -> grpc.GenericRpcHandler:
    """The service for a server. Not the generated registration: messages with segment data stay raw."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "CopySegment": grpc.stream_unary_rpc_method_handler(
            service.copy_segment, response_serializer=pb.CopySegmentResponse.SerializeToString
        ),
        "GetUpload": grpc.unary_unary_rpc_method_handler(
            service.get_upload,
            request_deserializer=pb.GetUploadRequest.FromString,
            response_serializer=pb.GetUploadResponse.SerializeToString,
        ),
        "ListUploads": grpc.unary_unary_rpc_method_handler(
            service.list_uploads,
            request_deserializer=pb.ListUploadsRequest.FromString,
            response_serializer=pb.ListUploadsResponse.SerializeToString,
        ),
        "AbortUpload": grpc.unary_unary_rpc_method_handler(
            service.abort_upload,
            request_deserializer=pb.AbortUploadRequest.FromString,
            response_serializer=pb.AbortUploadResponse.SerializeToString,
        ),
        "FetchSegment": grpc.unary_stream_rpc_method_handler(
            service.fetch_segment, request_deserializer=pb.FetchSegmentRequest.FromString
        ),
        "FetchIndex": grpc.unary_unary_rpc_method_handler(
            service.fetch_index, request_deserializer=pb.FetchIndexRequest.FromString
        ),
        "BatchFetchIndexes": grpc.unary_unary_rpc_method_handler(
            service.batch_fetch_indexes, request_deserializer=pb.BatchFetchIndexesRequest.FromString
        ),
        "VerifySegment": grpc.unary_stream_rpc_method_handler(
            service.verify_segment,
            request_deserializer=pb.VerifySegmentRequest.FromString,
            response_serializer=pb.VerifySegmentResponse.SerializeToString,
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
        "ResolveSegment": grpc.unary_unary_rpc_method_handler(
            service.resolve_segment,
            request_deserializer=pb.ResolveSegmentRequest.FromString,
            response_serializer=pb.ResolveSegmentResponse.SerializeToString,
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
