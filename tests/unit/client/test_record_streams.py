"""Streams of records from a server that says what it is told: where they stand, and what they do when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc, types_pb2
from tiergate_client import OffsetRange, Tiergate, TopicId, connect
from tiergate_client.errors import InvalidField, OffsetOutOfRange, SegmentNotFound, TiergateError, Unavailable
from tiergate_client.status import code_of, trailing_metadata

TOPIC_ID = TopicId.random()
PARTITION = types_pb2.TopicIdPartition(topic="orders", topic_id=TOPIC_ID.raw, partition=3)
HINT = f"{TOPIC_ID}/3"
GONE = SegmentNotFound("the segment was deleted")
Answer = pb.ReadRecordsResponse | TiergateError


class ScriptedRecords(records_pb2_grpc.RecordServiceServicer):
    """Each read takes the next list of answers. What it was asked, and with which hint, is kept."""

    def __init__(self) -> None:
        self.reads: list[list[Answer]] = []
        self.plan: list[pb.PlanReadResponse] = []
        self.starts: list[int] = []
        self.hints: list[object] = []

    def ReadRecords(  # noqa: N802 (the name on the wire, as below)
        self, request: pb.ReadRecordsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ReadRecordsResponse]:
        self._asked(context)
        self.starts.append(request.start_offset)
        for answer in self.reads.pop(0):
            if isinstance(answer, TiergateError):
                context.set_trailing_metadata(trailing_metadata(answer))
                context.abort(code_of(answer), answer.message)
            yield answer

    def PlanRead(  # noqa: N802
        self,
        request: pb.PlanReadRequest,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> Iterator[pb.PlanReadResponse]:
        self._asked(context)
        yield from self.plan

    def FindOffsetByTime(  # noqa: N802
        self,
        request: pb.FindOffsetByTimeRequest,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> pb.FindOffsetByTimeResponse:
        self._asked(context)
        token = types_pb2.ConsistencyToken(log_id=TOPIC_ID.raw)
        return pb.FindOffsetByTimeResponse(token=token, partition=PARTITION)

    def _asked(self, context: grpc.ServicerContext) -> None:
        self.hints.append(dict(context.invocation_metadata()).get("tiergate-partition"))


@pytest.fixture
def service() -> ScriptedRecords:
    return ScriptedRecords()


@pytest.fixture
def tiergate(service: ScriptedRecords) -> Iterator[Tiergate]:
    server = grpc.server(ThreadPoolExecutor(4))
    records_pb2_grpc.add_RecordServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with connect("ipv4:127.0.0.1:1", segments=f"127.0.0.1:{port}", timeout_s=10) as connected:
        yield connected
    server.stop(0).wait()


def first(next_offset: int, *, stop_offset: int, missing: tuple[tuple[int, int], ...] = ()) -> pb.ReadRecordsResponse:
    ranges = [pb.OffsetRange(start_offset=start, stop_offset=stop) for start, stop in missing]
    return pb.ReadRecordsResponse(next_offset=next_offset, partition=PARTITION, stop_offset=stop_offset, missing=ranges)


def records(*offsets: int, next_offset: int) -> pb.ReadRecordsResponse:
    made = [pb.Record(offset=offset, timestamp_type=pb.TIMESTAMP_TYPE_CREATE_TIME) for offset in offsets]
    return pb.ReadRecordsResponse(next_offset=next_offset, records=made)


def raw(data: bytes, *, next_offset: int, is_continued: bool = False) -> pb.ReadRecordsResponse:
    return pb.ReadRecordsResponse(next_offset=next_offset, data=data, is_continued=is_continued)


def test_next_offset_follows_the_record_that_was_given(tiergate: Tiergate, service: ScriptedRecords) -> None:
    service.reads = [[first(5, stop_offset=20), records(5, 6, 9, next_offset=12), records(12, next_offset=20)]]
    with tiergate.records.read_records("orders", 3) as stream:
        assert stream.next_offset == 5
        assert [(record.offset, stream.next_offset) for record in stream] == [(5, 6), (6, 7), (9, 10), (12, 13)]
        assert stream.next_offset == 20


def test_records_behind_a_loop_that_was_left_are_given_to_the_next_one(
    tiergate: Tiergate, service: ScriptedRecords
) -> None:
    service.reads = [[first(0, stop_offset=9), records(0, 1, 2, next_offset=3), records(3, next_offset=9)]]
    with tiergate.records.read_records("orders", 3) as stream:
        for record in stream:
            if record.offset == 1:
                break
        assert stream.next_offset == 2
        assert [record.offset for record in stream] == [2, 3]


def test_next_offset_of_raw_batches_follows_the_run_that_was_given(
    tiergate: Tiergate, service: ScriptedRecords
) -> None:
    service.reads = [
        [
            first(5, stop_offset=20),
            raw(b"a", next_offset=8),
            raw(b"b", next_offset=8, is_continued=True),
            raw(b"c", next_offset=20),
        ]
    ]
    with tiergate.records.read_raw_batches("orders", 3) as stream:
        assert [(run, stream.next_offset) for run in stream] == [(b"a", 8), (b"bc", 20)]


def test_read_is_planned_again_when_a_segment_was_deleted(tiergate: Tiergate, service: ScriptedRecords) -> None:
    service.reads = [
        [GONE],
        [first(0, stop_offset=9), records(0, 1, next_offset=2), GONE],
        [first(2, stop_offset=9), records(2, next_offset=5), GONE],
        [first(5, stop_offset=9), records(7, next_offset=9)],
    ]
    with tiergate.records.read_records("orders", 3) as stream:
        assert [record.offset for record in stream] == [0, 1, 2, 7]
    assert service.starts == [0, 0, 2, 5]


def test_read_ends_when_a_segment_is_gone_in_the_next_plan_too(tiergate: Tiergate, service: ScriptedRecords) -> None:
    service.reads = [
        [first(0, stop_offset=9), records(0, 1, next_offset=2), GONE],
        [first(2, stop_offset=9), GONE],
    ]
    given: list[int] = []
    with tiergate.records.read_records("orders", 3) as stream, pytest.raises(SegmentNotFound):
        given.extend(record.offset for record in stream)
    assert (given, service.reads) == ([0, 1], [])


def test_offsets_that_went_meanwhile_are_the_error_that_the_next_plan_names(
    tiergate: Tiergate, service: ScriptedRecords
) -> None:
    service.reads = [[first(0, stop_offset=9), GONE], [OffsetOutOfRange("readable from offset 5 up to 9")]]
    with tiergate.records.read_records("orders", 3) as stream, pytest.raises(OffsetOutOfRange):
        list(stream)


def test_split_is_not_planned_again(tiergate: Tiergate, service: ScriptedRecords) -> None:
    service.reads = [[first(0, stop_offset=9), GONE]]
    content = pb.ReadSplit(version=1, partition=PARTITION).SerializeToString()
    with tiergate.records.read_split(content) as stream, pytest.raises(SegmentNotFound):
        list(stream)
    assert service.hints == [HINT]


def test_offsets_that_went_meanwhile_are_told_when_they_shall_be_passed(
    tiergate: Tiergate, service: ScriptedRecords
) -> None:
    service.reads = [
        [first(0, stop_offset=30, missing=((10, 20),)), records(0, next_offset=1), GONE],
        [first(5, stop_offset=30, missing=((1, 5), (10, 20))), records(5, next_offset=15), GONE],
        [first(0, stop_offset=0, missing=((15, 30),)), records(next_offset=0)],
    ]
    with tiergate.records.read_records("orders", 3, skip_missing=True) as stream:
        assert [record.offset for record in stream] == [0, 5]
        assert stream.missing == (OffsetRange(10, 20), OffsetRange(1, 5), OffsetRange(15, 30))
        assert stream.next_offset == 15


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"no split at all"], ids=["tag", "text"])
def test_bytes_that_are_no_split_are_refused(tiergate: Tiergate, content: bytes) -> None:
    with pytest.raises(InvalidField) as refusal:
        tiergate.records.read_split(content)
    assert refusal.value.details["field"] == "split"


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda records: records.plan_read("orders", 2**31), "partition"),
        (lambda records: records.plan_read("orders", -1), "partition"),
        (lambda records: records.read_records("orders", 0, start_offset=2**63), "start_offset"),
        (lambda records: records.read_records("orders", 0, stop_time_ms=-(2**63) - 1), "stop_time_ms"),
        (lambda records: records.find_offset_by_time("orders", 0, 2**63), "timestamp_ms"),
        (lambda records: records.read_records("orders", 0, columns=()), "columns"),
        (lambda records: records.read_records("orders", 0, columns=("offset",)), "columns"),
    ],
)
def test_what_no_message_can_carry_is_refused_by_its_name(
    tiergate: Tiergate, ask: Callable[[object], object], field: str
) -> None:
    with pytest.raises(InvalidField) as refusal:
        ask(tiergate.records)
    assert refusal.value.details["field"] == field


def test_plan_without_a_message_is_told(tiergate: Tiergate) -> None:
    with pytest.raises(Unavailable, match="before its first message"):
        tiergate.records.plan_read("orders", 3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda records, topic_id: records.plan_read("orders", 3, topic_id=topic_id),
        lambda records, topic_id: records.find_offset_by_time("orders", 3, 5, topic_id=topic_id),
        lambda records, topic_id: records.read_records("orders", 3, topic_id=topic_id).close(),
        lambda records, topic_id: records.read_raw_batches("orders", 3, topic_id=topic_id).close(),
    ],
    ids=["plan", "find", "records", "raw"],
)
def test_calls_carry_the_routing_hint_where_the_id_is_known(
    tiergate: Tiergate, service: ScriptedRecords, ask: Callable[[object, TopicId | None], object]
) -> None:
    service.plan = [pb.PlanReadResponse(token=types_pb2.ConsistencyToken(log_id=TOPIC_ID.raw), partition=PARTITION)]
    service.reads = [[first(0, stop_offset=0)], [first(0, stop_offset=0)]]
    ask(tiergate.records, TOPIC_ID)
    ask(tiergate.records, None)
    assert service.hints == [HINT, None]
