"""RecordService over gRPC: plans and reads of records as plain values. Decodes nothing, and needs no extra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

import grpc
from google.protobuf.message import DecodeError

from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc
from tiergate_client._channels import Channels
from tiergate_client._patience import Patience, may_pass
from tiergate_client._record_reads import RecordRead, hint_for, offset_ranges
from tiergate_client._record_stream import RawBatchStream, RecordStream
from tiergate_client._tokens import TokenKeeper
from tiergate_client.conversions import partition_from_proto, token_from_proto
from tiergate_client.errors import InvalidField, TiergateError, Unavailable
from tiergate_client.ids import TopicId
from tiergate_client.integers import require_int32, require_int64
from tiergate_client.record_values import FoundOffset, PlannedRead, PlannedSplit
from tiergate_client.status import from_rpc_error

Request = TypeVar("Request", pb.PlanReadRequest, pb.FindOffsetByTimeRequest)
Message = TypeVar("Message", pb.PlanReadRequest, pb.ReadRecordsRequest, pb.FindOffsetByTimeRequest)
Answer = TypeVar("Answer")
RecordColumnName = Literal["key", "value", "headers"]

_ISOLATION: Final = {
    "read_uncommitted": pb.ISOLATION_LEVEL_READ_UNCOMMITTED,
    "read_committed": pb.ISOLATION_LEVEL_READ_COMMITTED,
}
_COLUMNS: Final = {
    "key": pb.RECORD_COLUMN_KEY,
    "value": pb.RECORD_COLUMN_VALUE,
    "headers": pb.RECORD_COLUMN_HEADERS,
}


class GrpcRecords:
    """Records by offset or time. A topic is named by its name, its id, or both; a name of two topics is refused.

    Times and offsets that are not given mean everything that is tiered; a stop is exclusive. `isolation` is
    "read_uncommitted" or "read_committed". Every call raises TopicNotFound, OffsetOutOfRange for what is not tiered,
    InvalidField, CorruptBatch, and NotOffered where the server has no records.
    """

    def __init__(
        self,
        channels: Channels,
        *,
        target: Callable[[], str],
        tokens: TokenKeeper,
        timeout_s: float,
        stream_timeout_s: float,
    ) -> None:
        self._channels = channels
        self._target = target
        self._tokens = tokens
        self._timeout_s = timeout_s
        self._stream_timeout_s = stream_timeout_s

    def plan_read(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: TopicId | None = None,
        start_offset: int | None = None,
        start_time_ms: int | None = None,
        stop_offset: int | None = None,
        stop_time_ms: int | None = None,
        isolation: str = "read_uncommitted",
        split_bytes: int | None = None,
        split_records: int | None = None,
        log_start_offset: int | None = None,
        min_timestamp_ms: int | None = None,
        skip_missing: bool = False,
    ) -> PlannedRead:
        """Divides a read into splits, which `read_split` reads, each anywhere and any number of times."""
        request = _request(
            pb.PlanReadRequest,
            partition=_partition(topic, topic_id, partition),
            isolation=_isolation(isolation),
            split_bytes=split_bytes,
            split_records=split_records,
            log_start_offset=log_start_offset,
            min_timestamp_ms=min_timestamp_ms,
            skip_missing=skip_missing,
        )
        _set_start(request, start_offset, start_time_ms)
        _set_stop(request, stop_offset, stop_time_ms)
        return self._until_answered(request, self._plan)

    def read_records(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: TopicId | None = None,
        start_offset: int | None = None,
        start_time_ms: int | None = None,
        stop_offset: int | None = None,
        stop_time_ms: int | None = None,
        isolation: str = "read_uncommitted",
        columns: Sequence[RecordColumnName] = ("key", "value", "headers"),
        max_records: int | None = None,
        max_bytes: int | None = None,
        log_start_offset: int | None = None,
        skip_missing: bool = False,
    ) -> RecordStream:
        """Records in order. A stream that breaks goes on by itself: none is lost or given twice."""
        request = _request(
            pb.ReadRecordsRequest,
            partition=_partition(topic, topic_id, partition),
            isolation=_isolation(isolation),
            columns=_columns(columns),
            max_records=max_records,
            max_bytes=max_bytes,
            log_start_offset=log_start_offset,
            skip_missing=skip_missing,
        )
        _set_start(request, start_offset, start_time_ms)
        _set_stop(request, stop_offset, stop_time_ms)
        return RecordStream(self._read(request))

    def read_raw_batches(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: TopicId | None = None,
        start_offset: int | None = None,
        stop_offset: int | None = None,
        isolation: str = "read_uncommitted",
        max_bytes: int | None = None,
        log_start_offset: int | None = None,
        skip_missing: bool = False,
    ) -> RawBatchStream:
        """Kafka's record batches as they are stored, for those who decode them."""
        request = _request(
            pb.ReadRecordsRequest,
            partition=_partition(topic, topic_id, partition),
            isolation=_isolation(isolation),
            format=pb.RECORD_FORMAT_RAW_BATCHES,
            max_bytes=max_bytes,
            log_start_offset=log_start_offset,
            skip_missing=skip_missing,
        )
        _set_start(request, start_offset, None)
        _set_stop(request, stop_offset, None)
        return RawBatchStream(self._read(request))

    def read_split(
        self, split: PlannedSplit | bytes, *, columns: Sequence[RecordColumnName] = ("key", "value", "headers")
    ) -> RecordStream:
        """The records of a planned split, or of its content."""
        content = split.content if isinstance(split, PlannedSplit) else split
        request = pb.ReadRecordsRequest(split=_split_of(content), columns=_columns(columns))
        return RecordStream(self._read(request))

    def find_offset_by_time(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        *,
        topic_id: TopicId | None = None,
        isolation: str = "read_uncommitted",
        log_start_offset: int | None = None,
        skip_missing: bool = False,
    ) -> FoundOffset | None:
        """The first record that is at least as late, as Kafka's offsetsForTimes; None when nothing tiered is.

        Raises OffsetOutOfRange, too, when an earlier one may be among missing offsets, unless those are skipped.
        """
        request = _request(
            pb.FindOffsetByTimeRequest,
            partition=_partition(topic, topic_id, partition),
            timestamp_ms=timestamp_ms,
            isolation=_isolation(isolation),
            log_start_offset=log_start_offset,
            skip_missing=skip_missing,
        )
        answer = self._until_answered(request, self._found)
        if not answer.HasField("offset"):
            return None
        epoch = answer.leader_epoch if answer.HasField("leader_epoch") else None
        return FoundOffset(answer.offset, answer.timestamp_ms, epoch)

    def _read(self, request: pb.ReadRecordsRequest) -> RecordRead:
        return RecordRead(
            self._channel,
            request,
            tokens=self._tokens,
            timeout_s=self._timeout_s,
            stream_timeout_s=self._stream_timeout_s,
        )

    def _plan(self, request: pb.PlanReadRequest, timeout_s: float) -> PlannedRead:
        hint = hint_for(request.partition)
        messages: Iterator[pb.PlanReadResponse] = self._stub().PlanRead(request, timeout=timeout_s, metadata=hint)
        first = next(messages, None)
        if first is None:
            raise Unavailable("the plan of the read ended before its first message: ask again")
        self._tokens.received(token_from_proto(first.token))
        splits = [_split(one) for message in messages for one in message.splits]
        return PlannedRead(
            partition_from_proto(first.partition),
            first.start_offset,
            first.stop_offset,
            offset_ranges(first.missing),
            tuple(splits),
        )

    def _found(self, request: pb.FindOffsetByTimeRequest, timeout_s: float) -> pb.FindOffsetByTimeResponse:
        hint = hint_for(request.partition)
        answer: pb.FindOffsetByTimeResponse = self._stub().FindOffsetByTime(request, timeout=timeout_s, metadata=hint)
        self._tokens.received(token_from_proto(answer.token))
        return answer

    def _until_answered(self, request: Request, ask: Callable[[Request, float], Answer]) -> Answer:
        """What cannot be answered at the moment is asked for again, within the same time."""
        patience = Patience(self._timeout_s)
        while True:
            token = self._tokens.to_send()
            request.ClearField("token")
            if token is not None:
                request.token.CopyFrom(token)
            try:
                return ask(request, patience.remaining_s)
            except grpc.RpcError as rpc_failure:
                failure: TiergateError = from_rpc_error(rpc_failure)
                self._tokens.learn(failure, sent=token)
                if not may_pass(failure) or not patience.pause(failure):
                    raise failure from rpc_failure

    def _channel(self) -> grpc.Channel:
        return self._channels.to(self._target())

    def _stub(self) -> Any:
        return records_pb2_grpc.RecordServiceStub(self._channel())


def _request(kind: type[Message], **fields: Any) -> Message:
    """Raises InvalidField for a number that the message can not carry."""
    for name, value in fields.items():
        if isinstance(value, int):
            require_int64(name, value)
    return kind(**fields)


def _partition(topic: str, topic_id: TopicId | None, partition: int) -> pb.RecordPartition:
    require_int32("partition", partition, minimum=0)
    return pb.RecordPartition(topic=topic, topic_id=b"" if topic_id is None else topic_id.raw, partition=partition)


def _set_start(request: pb.PlanReadRequest | pb.ReadRecordsRequest, offset: int | None, time_ms: int | None) -> None:
    _require_one("start", offset, time_ms)
    if offset is not None:
        request.start_offset = offset
    elif time_ms is not None:
        request.start_time_ms = time_ms


def _set_stop(request: pb.PlanReadRequest | pb.ReadRecordsRequest, offset: int | None, time_ms: int | None) -> None:
    _require_one("stop", offset, time_ms)
    if offset is not None:
        request.stop_offset = offset
    elif time_ms is not None:
        request.stop_time_ms = time_ms


def _require_one(edge: str, offset: int | None, time_ms: int | None) -> None:
    for name, number in ((f"{edge}_offset", offset), (f"{edge}_time_ms", time_ms)):
        if number is not None:
            require_int64(name, number)
    if offset is not None and time_ms is not None:
        raise InvalidField.of(f"{edge}_offset", f"give an offset or a time, not both: {offset} and {time_ms} ms")


def _isolation(name: str) -> pb.IsolationLevel.ValueType:
    if name not in _ISOLATION:
        raise InvalidField.of("isolation", f"{name!r} is none of {', '.join(_ISOLATION)}")
    return _ISOLATION[name]


def _columns(names: Sequence[str]) -> list[pb.RecordColumn.ValueType]:
    if not names:
        raise InvalidField.of("columns", f"name at least one of {', '.join(_COLUMNS)}")
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise InvalidField.of("columns", f"{', '.join(unknown)} is none of {', '.join(_COLUMNS)}")
    return [_COLUMNS[name] for name in names]


def _split_of(content: bytes) -> pb.ReadSplit:
    try:
        return pb.ReadSplit.FromString(content)
    except DecodeError:
        raise InvalidField.of("split", f"these {len(content)} bytes are no read split") from None


def _split(message: pb.ReadSplit) -> PlannedSplit:
    size_bytes = sum(one.stop_position - one.start_position for one in message.ranges)
    return PlannedSplit(
        message.ranges[0].start_offset, message.ranges[-1].stop_offset, size_bytes, message.SerializeToString()
    )
