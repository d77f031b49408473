"""RemoteLogMetadataService on the metadata plane: messages in, manager, messages out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import metadata_pb2_grpc, types_pb2
from tiergate_client.conversions import (
    change_to_proto,
    id_from_proto,
    metadata_from_proto,
    metadata_to_proto,
    partition_delete_from_proto,
    partition_from_proto,
    summary_to_proto,
    token_from_proto,
    token_to_proto,
    update_from_proto,
)
from tiergate_client.ids import SegmentId
from tiergate_client.integers import require_int64
from tiergate_client.values import MetadataChange
from tiergate_server.metadata.manager_slot import ManagerSlot
from tiergate_server.metadata.replica import CallTerms
from tiergate_server.rpc import page_tokens
from tiergate_server.rpc.deadlines import work_seconds
from tiergate_server.rpc.found_segments import read_questions, write_answers, write_packed

if TYPE_CHECKING:
    import grpc.aio
    from google.protobuf.message import Message

    Context = grpc.aio.ServicerContext[Any, Any]

Item = TypeVar("Item", bound="Message")

# A page of long items is cut here, well below the smallest message limit.
_PAGE_BYTES = 1024 * 1024
_HEARTBEAT_S = 5.0


class MetadataService(metadata_pb2_grpc.RemoteLogMetadataServiceServicer):
    def __init__(self, slot: ManagerSlot, *, page_size: int) -> None:
        self._slot = slot
        self._page_size = page_size

    async def AddSegment(self, request: pb.AddSegmentRequest, context: Context) -> pb.AddSegmentResponse:
        segment = metadata_from_proto(request.segment, "segment")
        token = await self._slot.get().add_segment(segment, _terms(request.token, context))
        return pb.AddSegmentResponse(token=token_to_proto(token))

    async def UpdateSegment(self, request: pb.UpdateSegmentRequest, context: Context) -> pb.UpdateSegmentResponse:
        update = update_from_proto(request)
        token = await self._slot.get().update_segment(update, _terms(request.token, context))
        return pb.UpdateSegmentResponse(token=token_to_proto(token))

    async def PutPartitionDelete(
        self, request: pb.PutPartitionDeleteRequest, context: Context
    ) -> pb.PutPartitionDeleteResponse:
        delete = partition_delete_from_proto(request.partition_delete)
        token = await self._slot.get().put_partition_delete(delete, _terms(request.token, context))
        return pb.PutPartitionDeleteResponse(token=token_to_proto(token))

    async def GetSegment(self, request: pb.GetSegmentRequest, context: Context) -> pb.GetSegmentResponse:
        segment, token = await self._slot.get().get_segment(
            id_from_proto(SegmentId, request.segment_id, "segment_id"),
            partition=partition_from_proto(request.partition) if request.HasField("partition") else None,
            terms=_terms(request.token, context),
        )
        return pb.GetSegmentResponse(token=token_to_proto(token), segment=metadata_to_proto(segment))

    async def FindSegment(self, request: pb.FindSegmentRequest, context: Context) -> pb.FindSegmentResponse:
        require_int64("offset", request.offset, minimum=0)
        segment, token = await self._slot.get().find_segment(
            partition_from_proto(request.partition),
            leader_epoch=request.leader_epoch,
            offset=request.offset,
            terms=_terms(request.token, context),
        )
        response = pb.FindSegmentResponse(token=token_to_proto(token))
        if segment is not None:
            write_packed(segment, response.segment)
        return response

    async def FindSegments(self, request: pb.FindSegmentsRequest, context: Context) -> pb.FindSegmentsResponse:
        page_tokens.page_limit(len(request.questions), self._page_size)
        questions = await read_questions(request.questions)
        answers, token = await self._slot.get().find_segments(questions, _terms(request.token, context))
        response = pb.FindSegmentsResponse(token=token_to_proto(token))
        await write_answers(answers, response)
        return response

    async def FindNextSegmentWithTransactionIndex(
        self, request: pb.FindNextSegmentWithTransactionIndexRequest, context: Context
    ) -> pb.FindNextSegmentWithTransactionIndexResponse:
        require_int64("offset", request.offset, minimum=0)
        segment, token = await self._slot.get().find_next_segment_with_transaction_index(
            partition_from_proto(request.partition),
            leader_epoch=request.leader_epoch,
            offset=request.offset,
            terms=_terms(request.token, context),
        )
        return pb.FindNextSegmentWithTransactionIndexResponse(
            token=token_to_proto(token), segment=None if segment is None else metadata_to_proto(segment)
        )

    async def GetLogSize(self, request: pb.GetLogSizeRequest, context: Context) -> pb.GetLogSizeResponse:
        size_bytes, token = await self._slot.get().log_size(
            partition_from_proto(request.partition),
            leader_epoch=request.leader_epoch,
            terms=_terms(request.token, context),
        )
        return pb.GetLogSizeResponse(token=token_to_proto(token), size_bytes=size_bytes)

    async def GetHighestOffset(
        self, request: pb.GetHighestOffsetRequest, context: Context
    ) -> pb.GetHighestOffsetResponse:
        offset, token = await self._slot.get().highest_offset_for_epoch(
            partition_from_proto(request.partition),
            leader_epoch=request.leader_epoch,
            terms=_terms(request.token, context),
        )
        return pb.GetHighestOffsetResponse(token=token_to_proto(token), offset=offset)

    async def ListSegments(self, request: pb.ListSegmentsRequest, context: Context) -> pb.ListSegmentsResponse:
        limit = page_tokens.page_limit(request.page_size, self._page_size)
        segments, token = await self._slot.get().list_segments(
            partition_from_proto(request.partition),
            leader_epoch=request.leader_epoch if request.HasField("leader_epoch") else None,
            after=page_tokens.segment_key(request.page_token),
            limit=limit,
            terms=_terms(request.token, context),
        )
        messages = _within_page([metadata_to_proto(segment) for segment in segments])
        is_last = len(messages) == len(segments) < limit
        return pb.ListSegmentsResponse(
            token=token_to_proto(token),
            segments=messages,
            next_page_token=b"" if is_last else page_tokens.after_segment(segments[len(messages) - 1]),
        )

    async def ListPartitions(self, request: pb.ListPartitionsRequest, context: Context) -> pb.ListPartitionsResponse:
        limit = page_tokens.page_limit(request.page_size, self._page_size)
        manager = self._slot.get()
        summaries, token = await manager.list_partitions(
            topic=request.topic if request.HasField("topic") else None,
            after=page_tokens.partition_key(request.page_token),
            limit=limit,
            terms=_terms(request.token, context),
        )
        messages = _within_page([summary_to_proto(summary) for summary in summaries])
        is_last = len(messages) == len(summaries) < limit
        return pb.ListPartitionsResponse(
            token=token_to_proto(token),
            partitions=messages,
            next_page_token=b"" if is_last else page_tokens.after_partition(summaries[len(messages) - 1]),
            partial=manager.is_partial,
        )

    async def WatchSegments(
        self, request: pb.WatchSegmentsRequest, context: Context
    ) -> AsyncIterator[pb.WatchSegmentsResponse]:
        manager = self._slot.get()
        partition = partition_from_proto(request.partition) if request.HasField("partition") else None
        terms = _terms(request.token, context)
        watcher, begin = await manager.watch(partition=partition, terms=terms)
        try:
            # At once, so that the caller knows that it misses nothing from here on.
            yield change_to_proto(MetadataChange(None, terms.token or begin))
            while True:
                changes = await watcher.take(timeout_s=_HEARTBEAT_S)
                for change in changes:
                    yield change_to_proto(change)
                if not changes:
                    yield change_to_proto(MetadataChange(None, manager.replica.token(watcher.homes)))
        finally:
            manager.replica.follower.watches.discard(watcher)


def _terms(token: types_pb2.ConsistencyToken, context: Context) -> CallTerms:
    return CallTerms(
        token=token_from_proto(token) if token.ByteSize() else None,
        timeout_s=work_seconds(context.time_remaining()),
    )


def _within_page(messages: list[Item]) -> list[Item]:
    """As many as fit into a page, and at least one of them."""
    size = 0
    for count, message in enumerate(messages):
        size += message.ByteSize()
        if size > _PAGE_BYTES and count:
            return messages[:count]
    return messages
