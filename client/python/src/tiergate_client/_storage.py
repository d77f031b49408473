"""RemoteStorage over gRPC."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc
from crc32c import crc32c

from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client._channels import Channels, routing_hint
from tiergate_client._downloads import Download
from tiergate_client._patience import Patience, may_pass
from tiergate_client._uploads import Upload
from tiergate_client.conversions import file_to_proto, manifest_from_proto, metadata_to_proto
from tiergate_client.errors import InvalidField, SentDataCorrupt, StoredDataCorrupt, TiergateError
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.status import from_rpc_error
from tiergate_client.values import RemoteLogSegmentMetadata

# An upload begins anew when it breaks: what breaks it again and again will not pass.
_MOST_BROKEN_UPLOADS = 5


class GrpcStorage(RemoteStorage):
    def __init__(
        self, channels: Channels, *, target: Callable[[], str], timeout_s: float, stream_timeout_s: float
    ) -> None:
        self._channels = channels
        self._target = target
        self._timeout_s = timeout_s
        self._stream_timeout_s = stream_timeout_s

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        manifest = data.manifest(metadata)
        patience = Patience(self._timeout_s)
        deadline = time.monotonic() + self._stream_timeout_s
        broken_uploads = 0
        while True:
            upload = Upload(manifest, data)
            try:
                return upload.send(self._channel(), timeout_s=deadline - time.monotonic())
            except InvalidField as complaint:
                if complaint.details.get("field", "").startswith("header"):
                    raise
                raise SentDataCorrupt(  # the header was made from the same files a moment ago
                    f"segment {metadata.segment_id} changed while it was read ({complaint.message}): copy it again"
                ) from complaint
            except TiergateError as failure:
                if upload.sent_chunks:
                    broken_uploads += 1
                    patience.progressed()
                if broken_uploads >= _MOST_BROKEN_UPLOADS or not may_pass(failure) or not patience.pause(failure):
                    raise

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        download = Download(
            self._channel,
            metadata,
            offset=offset,
            length=length,
            timeout_s=self._timeout_s,
            stream_timeout_s=self._stream_timeout_s,
        )
        return SegmentStream(download.pieces(), download.close)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        index = bytearray()
        while True:
            request = pb.FetchIndexRequest(
                metadata=metadata_to_proto(metadata), file=file_to_proto(file), offset=len(index)
            )
            piece: pb.FetchIndexResponse = self._call("FetchIndex", request, metadata)
            index += piece.data
            if len(index) >= piece.size_bytes or not piece.data:
                break
        if len(index) != piece.size_bytes or crc32c(index) != piece.crc32c:
            raise StoredDataCorrupt(f"the {file.value} of segment {metadata.segment_id} arrived damaged")
        return bytes(index)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._call("DeleteSegment", pb.DeleteSegmentRequest(metadata=metadata_to_proto(metadata)), metadata)

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        request = pb.GetSegmentManifestRequest(metadata=metadata_to_proto(metadata))
        answer: pb.GetSegmentManifestResponse = self._call("GetSegmentManifest", request, metadata)
        return manifest_from_proto(answer.manifest, "manifest")

    def _channel(self) -> grpc.Channel:
        return self._channels.to(self._target())

    def _call(self, method: str, request: Any, metadata: RemoteLogSegmentMetadata) -> Any:
        stub = storage_pb2_grpc.RemoteStorageServiceStub(self._channel())
        try:
            return getattr(stub, method)(request, timeout=self._timeout_s, metadata=routing_hint(metadata.partition))
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from failure
