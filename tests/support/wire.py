"""Raw gRPC against a running plane: what a client of another language, or a careless one, would send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest
from crc32c import crc32c as checksum
from google.rpc import error_details_pb2, status_pb2

from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client.conversions import file_to_proto, manifest_to_proto
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.status import DETAILS_KEY
from tiergate_client.values import RemoteLogSegmentMetadata

TIMEOUT_S = 20


@contextmanager
def channel_to(address: str) -> Iterator[grpc.Channel]:
    # A subchannel pool of its own: the connections of one test are not those of another.
    with grpc.insecure_channel(
        address,
        options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.http2.bdp_probe", 0),  # a window that does not grow: who stops reading stops the sender soon
        ],
    ) as channel:
        yield channel


def refused(call: Callable[[], object], code: grpc.StatusCode, reason: str) -> dict[str, str]:
    """The call fails with this row of the error table; returns the metadata of its ErrorInfo."""
    with pytest.raises(grpc.RpcError) as failure:
        call()
    error = failure.value
    assert error.code() is code, f"{error.code()}: {error.details()}"
    info = error_info(error)
    assert info.domain == "tiergate"
    assert info.reason == reason, error.details()
    assert (error.details() or "").strip()
    return dict(info.metadata)


def error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    trailers = {entry.key: entry.value for entry in error.trailing_metadata()}
    status = status_pb2.Status.FromString(trailers[DETAILS_KEY])
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    return info


def upload_messages(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> list[pb.CopySegmentRequest]:
    """A correct upload, message by message, as protobuf builds them."""
    manifest = data.manifest(metadata)
    return [
        pb.CopySegmentRequest(header=manifest_to_proto(manifest)),
        *(chunk_message(file_to_proto(chunk.file), chunk.offset, chunk.data) for chunk in data.chunks()),
        pb.CopySegmentRequest(finish=pb.CopySegmentFinish()),
    ]


def chunk_message(file: int, offset: int, data: bytes, *, crc32c: int | None = None) -> pb.CopySegmentRequest:
    return pb.CopySegmentRequest(
        chunk=pb.Chunk(
            file=file,  # type: ignore[arg-type]  # also numbers that are no file
            offset=offset,
            crc32c=checksum(data) if crc32c is None else crc32c,
            data=data,
        )
    )


def send(channel: grpc.Channel, messages: list[pb.CopySegmentRequest]) -> pb.CopySegmentResponse:
    stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
    return stub.CopySegment(iter(messages), timeout=TIMEOUT_S)
