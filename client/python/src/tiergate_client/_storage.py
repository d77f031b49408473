"""RemoteStorage over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import grpc
from crc32c import crc32c

from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client._channels import Channels, routing_hint
from tiergate_client._copies import Copy
from tiergate_client._downloads import Download
from tiergate_client._index_batches import IndexBatches
from tiergate_client._patience import Patience, may_pass
from tiergate_client._verifications import followed_verification
from tiergate_client.conversions import (
    file_to_proto,
    manifest_from_proto,
    manifest_to_proto,
    metadata_to_proto,
    partition_to_proto,
)
from tiergate_client.errors import LimitExceeded, StoredDataCorrupt, TiergateError
from tiergate_client.integers import INT32_MAX
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.status import from_rpc_error
from tiergate_client.storage_conversions import progress_from_proto, resolved_from_proto, upload_from_proto
from tiergate_client.stored_reads import require_files
from tiergate_client.upload_progress import UploadProgress, UploadSummary
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_client.verification import VerificationProgress


class GrpcStorage(RemoteStorage):
    def __init__(
        self, channels: Channels, *, target: Callable[[], str], timeout_s: float, stream_timeout_s: float
    ) -> None:
        self._channels = channels
        self._target = target
        self._timeout_s = timeout_s
        self._stream_timeout_s = stream_timeout_s
        self._index_batches = IndexBatches(
            lambda request, first: self._call("BatchFetchIndexes", request, first.metadata.partition),
            lambda question: self.fetch_index(question.metadata, question.file),
        )

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        copy = Copy(self._channel, self.get_upload, timeout_s=self._timeout_s, stream_timeout_s=self._stream_timeout_s)
        return copy.run(data.manifest(metadata), data)

    def get_upload(self, manifest: SegmentManifest) -> UploadProgress:
        request = pb.GetUploadRequest(header=manifest_to_proto(manifest))
        return progress_from_proto(self._call("GetUpload", request, manifest.metadata.partition))

    def list_uploads(self, partition: TopicIdPartition) -> Iterator[UploadSummary]:
        page_token = b""
        while True:
            request = pb.ListUploadsRequest(partition=partition_to_proto(partition), page_token=page_token)
            page: pb.ListUploadsResponse = self._call("ListUploads", request, partition)
            yield from (upload_from_proto(upload) for upload in page.uploads)
            page_token = page.next_page_token
            if not page_token:
                return

    def abort_upload(self, metadata: RemoteLogSegmentMetadata) -> bool:
        request = pb.AbortUploadRequest(metadata=metadata_to_proto(metadata))
        answer: pb.AbortUploadResponse = self._call("AbortUpload", request, metadata.partition)
        return answer.is_complete

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
            piece: pb.FetchIndexResponse = self._call("FetchIndex", request, metadata.partition)
            index += piece.data
            if len(index) >= piece.size_bytes or not piece.data:
                break
        if len(index) != piece.size_bytes or crc32c(index) != piece.crc32c:
            raise StoredDataCorrupt(f"the {file.value} of segment {metadata.segment_id} arrived damaged")
        return bytes(index)

    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        return self._index_batches.fetch(questions)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._call("DeleteSegment", pb.DeleteSegmentRequest(metadata=metadata_to_proto(metadata)), metadata.partition)

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        request = pb.GetSegmentManifestRequest(metadata=metadata_to_proto(metadata))
        answer: pb.GetSegmentManifestResponse = self._call("GetSegmentManifest", request, metadata.partition)
        return manifest_from_proto(answer.manifest, "manifest")

    def resolve_segment(
        self, metadata: RemoteLogSegmentMetadata, *, valid_s: int = 0, files: Collection[SegmentFile] = ()
    ) -> ResolvedSegment:
        require_files(files)
        request = pb.ResolveSegmentRequest(
            metadata=metadata_to_proto(metadata),
            valid_seconds=max(-1, min(valid_s, INT32_MAX)),
            files=map(file_to_proto, files),
        )
        answer: pb.ResolveSegmentResponse = self._call("ResolveSegment", request, metadata.partition)
        return resolved_from_proto(answer)

    def verify_segment(self, metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        return followed_verification(
            self._channel, metadata, timeout_s=self._timeout_s, stream_timeout_s=self._stream_timeout_s
        )

    def _channel(self) -> grpc.Channel:
        return self._channels.to(self._target())

    def _call(self, method: str, request: Any, partition: TopicIdPartition) -> Any:
        """What the server has no room for at the moment is asked for again as it says, within the same time."""
        stub = storage_pb2_grpc.RemoteStorageServiceStub(self._channel())
        patience = Patience(self._timeout_s)
        while True:
            try:
                return getattr(stub, method)(request, timeout=patience.remaining_s, metadata=routing_hint(partition))
            except grpc.RpcError as rpc_failure:
                failure = from_rpc_error(rpc_failure)
                if not isinstance(failure, LimitExceeded) or not may_pass(failure) or not patience.pause(failure):
                    raise failure from rpc_failure
