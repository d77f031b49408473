"""One attempt to send a segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import grpc
from crc32c import crc32c

from tiergate.v1 import storage_pb2 as pb
from tiergate_client import framing
from tiergate_client._channels import routing_hint
from tiergate_client.conversions import file_to_proto, manifest_to_proto
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile, SegmentManifest
from tiergate_client.status import from_rpc_error

_METHOD = "/tiergate.v1.RemoteStorageService/CopySegment"
_FINISH = pb.CopySegmentRequest(finish=pb.CopySegmentFinish()).SerializeToString()


class Upload:
    def __init__(self, manifest: SegmentManifest, data: LogSegmentData, *, begin_at: Mapping[SegmentFile, int]) -> None:
        self._manifest = manifest
        self._data = data
        self._begin_at = begin_at
        self._reading_failure: Exception | None = None
        self.sent_chunks = 0

    def send(self, channel: grpc.Channel, *, timeout_s: float) -> bytes:
        """Sends every file from where it shall begin, and returns the custom metadata."""
        call: Any = channel.stream_unary(_METHOD, response_deserializer=pb.CopySegmentResponse.FromString)
        try:
            answer = call(self._messages(), timeout=timeout_s, metadata=routing_hint(self._manifest.metadata.partition))
        except grpc.RpcError as failure:
            if self._reading_failure is not None:  # gRPC tells only that the messages ended early
                raise self._reading_failure from None
            raise from_rpc_error(failure) from failure
        custom_metadata: bytes = answer.custom_metadata
        return custom_metadata

    def _messages(self) -> Iterator[bytes]:
        yield pb.CopySegmentRequest(header=manifest_to_proto(self._manifest)).SerializeToString()
        try:
            for chunk in self._data.chunks(begin_at=self._begin_at):
                yield framing.frame_copy_chunk(
                    file=file_to_proto(chunk.file),
                    offset=chunk.offset,
                    crc32c=self._checksum(chunk),
                    data=chunk.data,
                )
                self.sent_chunks += 1
        except OSError as failure:
            self._reading_failure = failure
            raise
        yield _FINISH

    def _checksum(self, chunk: SegmentChunk) -> int:
        blocks = self._manifest.log_block_crc32c
        block = chunk.offset // BLOCK_BYTES
        if chunk.file is SegmentFile.LOG and block < len(blocks):
            return blocks[block]  # computed when the manifest was made; if the file changed since, the server notices
        return crc32c(chunk.data)
