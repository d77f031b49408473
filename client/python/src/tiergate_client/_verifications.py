"""A verification on the server, followed message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc
from tiergate_client._channels import routing_hint
from tiergate_client._ended_calls import end_call
from tiergate_client._patience import Patience, may_pass
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import TiergateError, Unavailable
from tiergate_client.status import from_rpc_error
from tiergate_client.storage_conversions import verification_from_proto
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_client.verification import VerificationProgress


def followed_verification(
    channel: Callable[[], grpc.Channel],
    metadata: RemoteLogSegmentMetadata,
    *,
    timeout_s: float,
    stream_timeout_s: float,
) -> Iterator[VerificationProgress]:
    """Ends the work on the server when it is closed.

    A server that is away or busy is asked again, for `timeout_s`; one that breaks off has verified nothing.
    """
    patience = Patience(timeout_s)
    is_complete = False
    while not is_complete:
        call = _begin(channel(), metadata, stream_timeout_s)
        has_begun = False
        try:
            for message in call:
                has_begun = True
                progress = verification_from_proto(message)
                is_complete = progress.is_complete
                yield progress
            failure: TiergateError | None = None
        except grpc.RpcError as rpc_failure:
            failure = from_rpc_error(rpc_failure)
        finally:
            end_call(call)
        if failure is None and not is_complete:
            failure = Unavailable(f"the verification of segment {metadata.segment_id} ended too early")
        if failure is not None and (has_begun or not may_pass(failure) or not patience.pause(failure)):
            raise failure


def _begin(channel: grpc.Channel, metadata: RemoteLogSegmentMetadata, stream_timeout_s: float) -> Any:
    request = pb.VerifySegmentRequest(metadata=metadata_to_proto(metadata))
    stub = storage_pb2_grpc.RemoteStorageServiceStub(channel)
    return stub.VerifySegment(request, timeout=stream_timeout_s, metadata=routing_hint(metadata.partition))
