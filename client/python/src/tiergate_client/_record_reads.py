"""A call of ReadRecords that survives broken streams: it goes on, on any replica, with the offset that comes next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import grpc

from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc, types_pb2
from tiergate_client._channels import routing_hint_by_id
from tiergate_client._ended_calls import end_call
from tiergate_client._patience import Patience, may_pass
from tiergate_client._tokens import TokenKeeper
from tiergate_client.conversions import partition_from_proto, token_from_proto
from tiergate_client.errors import Cancelled, SegmentNotFound, TiergateError, Unavailable
from tiergate_client.ids import TopicId
from tiergate_client.record_values import OffsetRange
from tiergate_client.status import from_rpc_error
from tiergate_client.values import TopicIdPartition

_ID_BYTES: Final = 16


class RecordRead:
    """Opened at once, so that a topic or an offset that is not there is told by the call that asks for it."""

    def __init__(
        self,
        channel: Callable[[], grpc.Channel],
        request: pb.ReadRecordsRequest,
        *,
        tokens: TokenKeeper,
        timeout_s: float,
        stream_timeout_s: float,
    ) -> None:
        self._channel = channel
        self._request = request
        self._tokens = tokens
        self._deadline = time.monotonic() + stream_timeout_s
        self._patience = Patience(timeout_s, until=self._deadline)
        self._is_limited = request.HasField("max_records") or request.HasField("max_bytes")
        self._closed = False
        self._call: Any = None
        self._begun: pb.ReadRecordsResponse | None = None
        self._gone_at: int | None = None
        self.next_offset = 0
        self.attempts = 0
        """What came in pieces is to be thrown away when there is another one."""
        self._open()
        try:
            self._begun = self._received()
        except BaseException:
            self.close()
            raise
        self.next_offset = self._begun.next_offset

    @property
    def partition(self) -> TopicIdPartition:
        return partition_from_proto(self._first.partition)

    @property
    def stop_offset(self) -> int:
        return self._first.stop_offset

    @property
    def missing(self) -> tuple[OffsetRange, ...]:
        return offset_ranges(self._first.missing)

    @property
    def aborted(self) -> tuple[pb.AbortedTransaction, ...]:
        return tuple(self._first.aborted)

    def next_message(self) -> pb.ReadRecordsResponse | None:
        """None: this was all."""
        self._patience.progressed()  # however long the caller took with the last one
        return None if self._is_over() else self._received(may_end=True)

    def passed(self, next_offset: int, *, records: int, size_bytes: int) -> None:
        """So much was given to the caller: what is asked for after a break is the rest."""
        self.next_offset = next_offset
        if self._request.HasField("max_records"):
            self._request.max_records -= records
        if self._request.HasField("max_bytes"):
            self._request.max_bytes -= size_bytes

    def close(self) -> None:
        self._closed = True
        end_call(self._call)

    @property
    def _first(self) -> pb.ReadRecordsResponse:
        if self._begun is None:
            raise Unavailable("the read of records has not begun")
        return self._begun

    def _is_over(self) -> bool:
        request = self._request
        return (
            self.next_offset >= self.stop_offset
            or (request.HasField("max_records") and request.max_records <= 0)
            or (request.HasField("max_bytes") and request.max_bytes <= 0)
        )

    def _open(self) -> None:
        request = self._request
        if self._begun is not None:
            request.start_offset = self.next_offset
            if not request.HasField("split"):
                request.stop_offset = self.stop_offset
        request.ClearField("token")
        token = self._tokens.to_send()
        if token is not None:
            request.token.CopyFrom(token)
        stub = records_pb2_grpc.RecordServiceStub(self._channel())
        asked = request.split.partition if request.HasField("split") else request.partition
        hint = hint_for(asked if self._begun is None else self._begun.partition)
        self._call = stub.ReadRecords(request, timeout=self._deadline - time.monotonic(), metadata=hint)
        self.attempts += 1

    def _received(self, *, may_end: bool = False) -> Any:
        failure: TiergateError
        while True:
            try:
                return self._seen(next(self._call))
            except StopIteration:
                if may_end and self._is_limited:  # met by bytes that only the server counts, or by offsets
                    return None
                failure = Unavailable("the stream of records ended before its last message")
            except grpc.RpcError as rpc_failure:
                if self._closed:
                    raise Cancelled("the stream of records was closed") from rpc_failure
                failure = from_rpc_error(rpc_failure)
                self._tokens.learn(failure, sent=self._request.token)
                # Cancelled, though not by us: the server ended a stream that we did not read for a while.
                if not (may_pass(failure) or isinstance(failure, Cancelled) or self._is_to_be_planned_again(failure)):
                    raise failure from rpc_failure
            if not self._patience.pause(failure):
                raise failure
            self._open()

    def _is_to_be_planned_again(self, failure: TiergateError) -> bool:
        """A segment of the plan was deleted. Others hold its offsets, or the next plan says that they are gone."""
        if not isinstance(failure, SegmentNotFound) or self._request.HasField("split"):
            return False
        is_the_same = self._gone_at == self.next_offset
        self._gone_at = self.next_offset
        return not is_the_same

    def _seen(self, message: pb.ReadRecordsResponse) -> pb.ReadRecordsResponse:
        if message.HasField("token"):
            self._tokens.received(token_from_proto(message.token))
        if self._begun is not None and message.HasField("partition"):
            self._resumed(self._begun, message)
        return message

    def _resumed(self, begun: pb.ReadRecordsResponse, message: pb.ReadRecordsResponse) -> None:
        """What has gone since the read began is told as missing, too; the read does not go back for it."""
        told = self.missing
        for one in message.missing:
            if not any(it.start_offset <= one.start_offset and one.stop_offset <= it.stop_offset for it in told):
                begun.missing.append(one)
        begun.stop_offset = max(self.next_offset, min(begun.stop_offset, message.stop_offset))
        message.next_offset = max(self.next_offset, message.next_offset)


def hint_for(partition: pb.RecordPartition | types_pb2.TopicIdPartition) -> tuple[tuple[str, str], ...]:
    """The routing hint; none for a name alone. What is no id is the server's to refuse."""
    if len(partition.topic_id) != _ID_BYTES:
        return ()
    return routing_hint_by_id(TopicId(partition.topic_id), partition.partition)


def offset_ranges(messages: Iterable[pb.OffsetRange]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(one.start_offset, one.stop_offset) for one in messages)
