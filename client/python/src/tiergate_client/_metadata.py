"""RemoteLogMetadata over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

import grpc

from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import metadata_pb2_grpc, types_pb2
from tiergate_client._channels import Channels, routing_hint
from tiergate_client._ended_calls import end_call
from tiergate_client._patience import Patience, may_pass
from tiergate_client._tokens import TokenKeeper
from tiergate_client.conversions import (
    change_from_proto,
    metadata_from_proto,
    metadata_to_proto,
    partition_delete_to_proto,
    partition_to_proto,
    question_to_proto,
    summary_from_proto,
    token_from_proto,
    token_to_proto,
    update_to_proto,
)
from tiergate_client.errors import (
    Cancelled,
    CommitStateUnknown,
    DeadlineExceeded,
    Exhausted,
    InternalError,
    MetadataLogUnavailable,
    MetadataNotReady,
    NotHosted,
    TiergateError,
    Unavailable,
)
from tiergate_client.ids import SegmentId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.status import from_rpc_error, from_status, never_connected
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    TopicIdPartition,
)

_ATTEMPT_S = 5.0
# Errors that say nothing about what the log decided. Any other one is a verdict.
_NO_VERDICT = (Unavailable, DeadlineExceeded, CommitStateUnknown, Exhausted, InternalError, Cancelled)


class _HasToken(Protocol):
    @property
    def token(self) -> types_pb2.ConsistencyToken: ...


Answer = TypeVar("Answer", bound=_HasToken)


class GrpcMetadata(RemoteLogMetadata):
    def __init__(self, channels: Channels, *, target: str, timeout_s: float, tokens: TokenKeeper | None = None) -> None:
        self._channels = channels
        self._target = target
        self._timeout_s = timeout_s
        self._tokens = tokens or TokenKeeper()

    def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        segment = metadata_to_proto(metadata)
        self._until_decided(
            "AddSegment",
            lambda: pb.AddSegmentRequest(token=self._tokens.to_send(), segment=segment),
            metadata.partition,
        )

    def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        self._until_decided("UpdateSegment", lambda: update_to_proto(update, self._tokens.to_send()), update.partition)

    def put_partition_delete(self, delete: RemotePartitionDeleteMetadata) -> None:
        self._until_decided(
            "PutPartitionDelete",
            lambda: pb.PutPartitionDeleteRequest(
                token=self._tokens.to_send(), partition_delete=partition_delete_to_proto(delete)
            ),
            delete.partition,
        )

    def get_segment(
        self, segment_id: SegmentId, *, partition: TopicIdPartition | None = None
    ) -> RemoteLogSegmentMetadata:
        request = pb.GetSegmentRequest(
            token=self._tokens.to_send(),
            partition=None if partition is None else partition_to_proto(partition),
            segment_id=segment_id.raw,
        )
        answer: pb.GetSegmentResponse = self._call("GetSegment", request, partition)
        return metadata_from_proto(answer.segment, "segment")

    def find_segment(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        request = pb.FindSegmentRequest(
            token=self._tokens.to_send(),
            partition=partition_to_proto(partition),
            leader_epoch=leader_epoch,
            offset=offset,
        )
        answer: pb.FindSegmentResponse = self._call("FindSegment", request, partition)
        return metadata_from_proto(answer.segment, "segment") if answer.HasField("segment") else None

    def find_segments(
        self, questions: Sequence[SegmentQuestion]
    ) -> list[RemoteLogSegmentMetadata | TiergateError | None]:
        request = pb.FindSegmentsRequest(
            token=self._tokens.to_send(), questions=[question_to_proto(question) for question in questions]
        )
        answers: pb.FindSegmentsResponse = self._call("FindSegments", request, None)
        return [_answer(answer) for answer in answers.answers]

    def find_next_segment_with_transaction_index(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        request = pb.FindNextSegmentWithTransactionIndexRequest(
            token=self._tokens.to_send(),
            partition=partition_to_proto(partition),
            leader_epoch=leader_epoch,
            offset=offset,
        )
        answer: pb.FindNextSegmentWithTransactionIndexResponse = self._call(
            "FindNextSegmentWithTransactionIndex", request, partition
        )
        return metadata_from_proto(answer.segment, "segment") if answer.HasField("segment") else None

    def log_size(self, partition: TopicIdPartition, *, leader_epoch: int) -> int:
        request = pb.GetLogSizeRequest(
            token=self._tokens.to_send(), partition=partition_to_proto(partition), leader_epoch=leader_epoch
        )
        answer: pb.GetLogSizeResponse = self._call("GetLogSize", request, partition)
        return answer.size_bytes

    def highest_offset_for_epoch(self, partition: TopicIdPartition, *, leader_epoch: int) -> int | None:
        request = pb.GetHighestOffsetRequest(
            token=self._tokens.to_send(), partition=partition_to_proto(partition), leader_epoch=leader_epoch
        )
        answer: pb.GetHighestOffsetResponse = self._call("GetHighestOffset", request, partition)
        return answer.offset if answer.HasField("offset") else None

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        page_token = b""
        while True:
            request = pb.ListSegmentsRequest(
                token=self._tokens.to_send(),
                partition=partition_to_proto(partition),
                leader_epoch=leader_epoch,
                page_token=page_token,
            )
            page: pb.ListSegmentsResponse = self._call("ListSegments", request, partition)
            yield from (metadata_from_proto(segment, "segment") for segment in page.segments)
            page_token = page.next_page_token
            if not page_token:
                return

    def list_partitions(self, *, topic: str | None = None) -> Iterator[PartitionSummary]:
        page_token = b""
        while True:
            request = pb.ListPartitionsRequest(token=self._tokens.to_send(), topic=topic, page_token=page_token)
            page: pb.ListPartitionsResponse = self._call("ListPartitions", request, None)
            yield from (summary_from_proto(summary) for summary in page.partitions)
            page_token = page.next_page_token
            if not page_token:
                return

    def watch(
        self, *, partition: TopicIdPartition | None = None, after: ConsistencyToken | None = None
    ) -> Iterator[MetadataChange]:
        request = pb.WatchSegmentsRequest(
            token=None if after is None else token_to_proto(after),
            partition=None if partition is None else partition_to_proto(partition),
        )
        stub = metadata_pb2_grpc.RemoteLogMetadataServiceStub(self._channels.to(self._target))
        # No deadline: a watch lasts as long as its reader wants; a dead peer is noticed by keepalive.
        stream: Any = stub.WatchSegments(request, metadata=routing_hint(partition))
        try:
            for message in stream:
                change = change_from_proto(message)
                self._tokens.received(change.token)
                yield change
        except grpc.RpcError as failure:
            raise from_rpc_error(failure) from failure
        finally:
            end_call(stream)

    def _until_decided(self, method: str, make_request: Callable[[], Any], partition: TopicIdPartition) -> None:
        """Repeats a mutation until it has a verdict: what already holds is answered OK."""
        patience = Patience(self._timeout_s)
        may_be_published = False
        while True:
            try:
                self._call(method, make_request(), partition, timeout_s=min(patience.remaining_s, _ATTEMPT_S))
            except _NO_VERDICT as failure:
                may_be_published |= not _surely_not_published(failure)
                is_worth_repeating = may_pass(failure) or isinstance(failure, DeadlineExceeded | CommitStateUnknown)
                if is_worth_repeating and patience.pause(failure):
                    continue
                if not may_be_published:
                    raise
                raise CommitStateUnknown(f"{method} has no verdict in time: {failure.message}") from failure
            else:
                return

    def _call(
        self,
        method: str,
        request: Any,
        partition: TopicIdPartition | None,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        stub = metadata_pb2_grpc.RemoteLogMetadataServiceStub(self._channels.to(self._target))
        try:
            answer = getattr(stub, method)(
                request,
                timeout=self._timeout_s if timeout_s is None else timeout_s,
                metadata=routing_hint(partition),
            )
        except grpc.RpcError as failure:
            error = from_rpc_error(failure)
            self._tokens.learn(error, sent=request.token if request.HasField("token") else None)
            raise error from failure
        self._tokens.received(token_from_proto(cast("_HasToken", answer).token))
        return answer


def _answer(answer: pb.SegmentAnswer) -> RemoteLogSegmentMetadata | TiergateError | None:
    if answer.HasField("status"):
        return from_status(answer.status)
    return metadata_from_proto(answer.segment, "segment") if answer.HasField("segment") else None


def _surely_not_published(failure: TiergateError) -> bool:
    if isinstance(failure, MetadataNotReady | MetadataLogUnavailable | NotHosted | Exhausted):
        return True
    return never_connected(failure)
