"""The metadata plane as the record service asks it for a caller: with its token, and no longer than it waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from tiergate.v1 import records_pb2 as pb
from tiergate_client import MetadataView, Tiergate
from tiergate_client.conversions import token_from_proto
from tiergate_client.errors import DeadlineExceeded, MetadataNotReady, NotOffered, Unavailable
from tiergate_server.rpc.deadlines import work_seconds

# Reads have an hour, their questions not: a plane that is away is told about.
_LONGEST_QUESTION_S: Final = 15.0
_RETRY_AFTER_MS: Final = 1000

Request = pb.PlanReadRequest | pb.ReadRecordsRequest | pb.FindOffsetByTimeRequest


class CallersMetadata:
    """`connection` leads to the metadata plane at `address`; None: nobody said where that is."""

    def __init__(self, connection: Tiergate | None, *, address: str) -> None:
        self._connection = connection
        self._address = address

    @contextmanager
    def asked_by(self, request: Request, context: grpc.ServicerContext) -> Iterator[MetadataView]:
        """Raises MetadataNotReady, also in the place of what the transport says about the metadata plane."""
        if self._connection is None:
            raise NotOffered(
                "this segment plane was not told where the metadata plane is, so it has no records: "
                "set segments.metadata_target"
            )
        token = token_from_proto(request.token) if request.HasField("token") else None
        timeout_s = min(work_seconds(context.time_remaining()), _LONGEST_QUESTION_S)
        try:
            yield self._connection.metadata_since(token, timeout_s=timeout_s)
        except (Unavailable, DeadlineExceeded) as failure:
            if failure.reason:
                raise
            raise MetadataNotReady(
                f"the segment plane cannot reach the metadata plane at {self._address}: try again, and check "
                f"segments.metadata_target if it stays so",
                details={"address": self._address, "cause": failure.message},
                retry_after_ms=_RETRY_AFTER_MS,
            ) from failure
