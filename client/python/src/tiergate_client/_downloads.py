"""A download that survives broken streams: it goes on, on any replica, where its own position is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from crc32c import crc32c

from tiergate.v1 import storage_pb2 as pb
from tiergate_client import framing
from tiergate_client._channels import routing_hint
from tiergate_client._ended_calls import end_call
from tiergate_client._patience import Patience, may_pass
from tiergate_client.checksums import crc32c_appended
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import Cancelled, StoredDataCorrupt, TiergateError, Unavailable
from tiergate_client.status import from_rpc_error
from tiergate_client.values import RemoteLogSegmentMetadata

_METHOD = "/tiergate.v1.RemoteStorageService/FetchSegment"


class Download:
    """Opened at once, so that a segment that is not there is told by the call that asks for it."""

    def __init__(
        self,
        channel: Callable[[], grpc.Channel],
        metadata: RemoteLogSegmentMetadata,
        *,
        offset: int,
        length: int | None,
        timeout_s: float,
        stream_timeout_s: float,
    ) -> None:
        self._channel = channel
        self._metadata = metadata
        self._position = offset
        self._left = length
        self._deadline = time.monotonic() + stream_timeout_s
        self._patience = Patience(timeout_s, until=self._deadline)
        self._closed = False
        self._call: Any = None
        self._checksum = 0
        self._open()
        try:
            self._first = self._next()
        except BaseException:
            self.close()
            raise

    def pieces(self) -> Iterator[memoryview]:
        chunk = self._first
        while True:
            if len(chunk.data):
                yield chunk.data
            if chunk.stream_crc32c is not None:
                return
            chunk = self._next()

    def close(self) -> None:
        self._closed = True
        end_call(self._call)

    def _open(self) -> None:
        request = pb.FetchSegmentRequest(
            metadata=metadata_to_proto(self._metadata), offset=self._position, length=self._left
        )
        fetch: Any = self._channel().unary_stream(_METHOD, request_serializer=pb.FetchSegmentRequest.SerializeToString)
        self._call = fetch(
            request, timeout=self._deadline - time.monotonic(), metadata=routing_hint(self._metadata.partition)
        )
        self._checksum = 0

    def _next(self) -> framing.FetchedChunk:
        failure: TiergateError
        self._patience.progressed()  # however long the caller took with the last chunk
        while True:
            try:
                return self._checked(framing.parse_fetched_chunk(next(self._call)))
            except StopIteration:
                failure = Unavailable("the stream ended before its last chunk")
            except framing.MalformedMessage as damage:
                end_call(self._call)
                failure = Unavailable(f"a message arrived damaged: {damage}")
            except grpc.RpcError as rpc_failure:
                if self._closed:
                    raise Cancelled("the stream was closed") from rpc_failure
                failure = from_rpc_error(rpc_failure)
                # Cancelled, though not by us: the server ended a stream that we did not read for a while.
                if not may_pass(failure) and not isinstance(failure, Cancelled):
                    raise failure from rpc_failure
            if not self._patience.pause(failure):
                raise failure
            self._open()

    def _checked(self, chunk: framing.FetchedChunk) -> framing.FetchedChunk:
        checksum = crc32c(chunk.data)
        self._checksum = crc32c_appended(self._checksum, chunk.data, checksum)
        is_whole = chunk.stream_crc32c in (None, self._checksum)
        if not is_whole or checksum != chunk.crc32c or chunk.offset != self._position:
            raise StoredDataCorrupt(
                f"segment {self._metadata.segment_id} arrived damaged at {self._position}",
                details={"segment": str(self._metadata.segment_id), "position": str(self._position)},
            )
        self._position += len(chunk.data)
        if self._left is not None:
            self._left -= len(chunk.data)
        return chunk
