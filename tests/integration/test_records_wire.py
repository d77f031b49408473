"""Every row of records.proto's tables, by a client that breaks the rules or meets what is broken."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.guarded_server import guarded_server, record_service
from support.hooked_store import HookedStore
from support.in_process_tiergate import in_process_tiergate
from support.made_segments import tier_batches
from support.metrics import calls_in_flight, metric
from support.planes import PlaneProcess, Planes, free_ports, running_planes
from support.record_batches import MadeBatch, MadeRecord
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, refused
from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc, types_pb2
from tiergate_client import (
    LogId,
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    Tiergate,
    TopicId,
    connect,
)
from tiergate_client.conversions import metadata_to_proto, partition_to_proto
from tiergate_client.errors import BackendThrottled, StorageUnavailable, TiergateError
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.rpc.record_service import record_handlers
from tiergate_server.segments.segment_storage import SegmentStorage

MIB = 1024 * 1024
INVALID, OUT_OF_RANGE = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE
NOT_FOUND, EXHAUSTED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED
UNAVAILABLE, UNIMPLEMENTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED
DATA_LOSS, PRECONDITION = grpc.StatusCode.DATA_LOSS, grpc.StatusCode.FAILED_PRECONDITION
COMMITTED = pb.ISOLATION_LEVEL_READ_COMMITTED

Request = pb.PlanReadRequest | pb.ReadRecordsRequest | pb.FindOffsetByTimeRequest
REQUESTS: tuple[type[Request], ...] = (pb.PlanReadRequest, pb.ReadRecordsRequest, pb.FindOffsetByTimeRequest)
ORDERS = pb.RecordPartition(topic="orders")
TIME_MS, LATE_MS = 1_700_000_000_000, 1_800_000_000_000


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(
        tmp_path_factory.mktemp("records"),
        segments__metrics="127.0.0.1:0",
        segments__quota__topic_fetch_overrides=f'{{"crawling": {100 * 1024}}}',
    ) as running:
        yield running


@pytest.fixture(scope="module")
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as connected:
        yield connected


@pytest.fixture(scope="module")
def channel(planes: Planes) -> Iterator[grpc.Channel]:
    with channel_to(planes.segments.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def orders(tiergate: Tiergate) -> RemoteLogSegmentMetadata:
    """Offsets 100 to 199 of the topic orders."""
    batch = batch_of(range(100, 200))
    return tier_batches(tiergate, [batch], topic="orders", topic_id=TopicId.random(), end_offset=199)


def batch_of(offsets: range, *, value: bytes = b"value") -> MadeBatch:
    records = tuple(MadeRecord(number, timestamp_delta=number, value=value) for number in range(len(offsets)))
    return MadeBatch(records, base_offset=offsets[0])


def ask(channel: grpc.Channel, request: Request) -> Callable[[], Any]:
    stub = records_pb2_grpc.RecordServiceStub(channel)
    if isinstance(request, pb.PlanReadRequest):
        return lambda: list(stub.PlanRead(request, timeout=TIMEOUT_S))
    if isinstance(request, pb.ReadRecordsRequest):
        return lambda: list(stub.ReadRecords(request, timeout=TIMEOUT_S))
    return lambda: stub.FindOffsetByTime(request, timeout=TIMEOUT_S)


def split_of(segment: RemoteLogSegmentMetadata) -> pb.ReadSplit:
    part = pb.SegmentRange(
        segment=metadata_to_proto(segment),
        start_offset=segment.start_offset,
        stop_offset=segment.end_offset + 1,
        stop_position=segment.segment_size_bytes,
    )
    return pb.ReadSplit(version=1, partition=partition_to_proto(segment.partition), ranges=[part])


@pytest.mark.parametrize("kind", REQUESTS)
def test_topic_that_nobody_mentioned_is_not_found(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, kind: type[Request]
) -> None:
    unknown = TopicId.random().raw
    for partition in (
        pb.RecordPartition(topic="nobody-wrote-it"),
        pb.RecordPartition(topic_id=unknown),
        pb.RecordPartition(topic="orders", topic_id=unknown),
    ):
        refused(ask(channel, kind(partition=partition)), NOT_FOUND, "TOPIC_NOT_FOUND")


@pytest.mark.parametrize("kind", REQUESTS)
def test_topic_whose_partitions_were_all_deleted_is_not_found(
    channel: grpc.Channel, tiergate: Tiergate, kind: type[Request]
) -> None:
    topic, topic_id = f"gone-{kind.__name__}", TopicId.random()
    segment = tier_batches(tiergate, [batch_of(range(3))], topic=topic, topic_id=topic_id, end_offset=2)
    for state in PartitionDeleteState:
        tiergate.metadata.put_partition_delete(RemotePartitionDeleteMetadata(segment.partition, state, 5, 2))
    for partition in (pb.RecordPartition(topic=topic), pb.RecordPartition(topic=topic, topic_id=topic_id.raw)):
        refused(ask(channel, kind(partition=partition)), NOT_FOUND, "TOPIC_NOT_FOUND")


@pytest.mark.parametrize("kind", REQUESTS)
def test_name_of_two_topics_is_refused_with_both_ids(
    channel: grpc.Channel, tiergate: Tiergate, kind: type[Request]
) -> None:
    topic, ids = f"twice-{kind.__name__}", sorted([TopicId.random(), TopicId.random()], key=str)
    for topic_id in ids:
        tier_batches(tiergate, [batch_of(range(3))], topic=topic, topic_id=topic_id, end_offset=2)
    details = refused(ask(channel, kind(partition=pb.RecordPartition(topic=topic))), INVALID, "INVALID_FIELD")
    assert details == {"field": "topic_id", "topic_ids": ",".join(map(str, ids))}
    ask(channel, kind(partition=pb.RecordPartition(topic=topic, topic_id=ids[1].raw)))()
    ask(channel, kind(partition=pb.RecordPartition(topic_id=ids[1].raw)))()


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize(
    ("partition", "field"),
    [
        (pb.RecordPartition(), "partition.topic"),
        (pb.RecordPartition(topic="a/b"), "partition.topic"),
        (pb.RecordPartition(topic="orders", topic_id=b"short"), "partition.topic_id"),
        (pb.RecordPartition(topic="orders", partition=-1), "partition.partition"),
    ],
    ids=["nothing", "name", "id", "number"],
)
def test_partition_that_can_be_none_is_refused(
    channel: grpc.Channel, kind: type[Request], partition: pb.RecordPartition, field: str
) -> None:
    assert refused(ask(channel, kind(partition=partition)), INVALID, "INVALID_FIELD")["field"] == field


@pytest.mark.parametrize("kind", REQUESTS)
def test_token_of_another_log_is_refused(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, kind: type[Request]
) -> None:
    token = types_pb2.ConsistencyToken(log_id=LogId.random().raw, applied_offsets={0: 5})
    refused(ask(channel, kind(partition=ORDERS, token=token)), PRECONDITION, "LOG_CHANGED")
    token.log_id = b"short"
    details = refused(ask(channel, kind(partition=ORDERS, token=token)), INVALID, "INVALID_FIELD")
    assert details["field"] == "token.log_id"


def test_plane_that_does_not_reach_the_metadata_says_so(tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    for target, code, reason in (
        (f"127.0.0.1:{nobody}", UNAVAILABLE, "METADATA_NOT_READY"),
        ("", UNIMPLEMENTED, ""),
    ):
        plane = PlaneProcess(
            "segments",
            data_directory=tmp_path,
            settings={
                "segments.listen": "127.0.0.1:0",
                "segments.metrics": "",
                "metadata.listen": "127.0.0.1:0",
                "segments.metadata_target": target,
            },
        )
        plane.start()
        try:
            with channel_to(plane.address) as channel, connect("ipv4:127.0.0.1:1", segments=plane.address) as tiergate:
                for kind in REQUESTS:
                    refused(ask(channel, kind(partition=ORDERS)), code, reason)
                assert tiergate.server_info("segments").features == (("records",) if target else ())
        finally:
            plane.stop()


def test_segment_that_was_deleted_is_not_found(channel: grpc.Channel, tiergate: Tiergate) -> None:
    segment = tier_batches(tiergate, [batch_of(range(3))], topic="deleted", topic_id=TopicId.random(), end_offset=2)
    tiergate.storage.delete_segment(segment)
    for request in (
        pb.ReadRecordsRequest(split=split_of(segment)),
        *(kind(partition=pb.RecordPartition(topic="deleted")) for kind in REQUESTS),
    ):
        refused(ask(channel, request), NOT_FOUND, "SEGMENT_NOT_FOUND")


def test_store_that_is_away_or_busy_is_told(tmp_path: Path) -> None:
    store = HookedStore(FilesystemStore(tmp_path))
    with (
        in_process_tiergate(tmp_path) as tier,
        guarded_server(record_handlers(record_service(SegmentStorage(store)))) as channel,
    ):
        segment = tier_batches(tier, [batch_of(range(3))], topic="orders", topic_id=TopicId.random(), end_offset=2)
        read = ask(channel, pb.ReadRecordsRequest(split=split_of(segment)))
        for failure, code in (
            (BackendThrottled("the store asks for less", retry_after_ms=10), EXHAUSTED),
            (StorageUnavailable("the store is away", retry_after_ms=10), UNAVAILABLE),
        ):
            store.before_next_read = raising(failure)
            refused(read, code, failure.reason)
        read()


def raising(failure: TiergateError) -> Callable[[], None]:
    def fail() -> None:
        raise failure

    return fail


def test_stored_bytes_that_changed_are_told_with_segment_and_position(
    planes: Planes, channel: grpc.Channel, tiergate: Tiergate
) -> None:
    segment = tier_batches(tiergate, [batch_of(range(300))], topic="rotten", topic_id=TopicId.random(), end_offset=299)
    (log,) = planes.segments.log_file.parent.glob(f"segments/**/{segment.segment_id}/*/log")
    log.chmod(0o600)
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    for request in (
        pb.ReadRecordsRequest(split=split_of(segment)),
        pb.ReadRecordsRequest(partition=pb.RecordPartition(topic="rotten")),
        pb.FindOffsetByTimeRequest(partition=pb.RecordPartition(topic="rotten"), timestamp_ms=1_700_000_000_001),
    ):
        details = refused(ask(channel, request), DATA_LOSS, "CHECKSUM_MISMATCH")
        assert (details["segment"], details["position"]) == (str(segment.segment_id), "0")


def test_batch_that_cannot_be_read_is_told_with_segment_and_position(channel: grpc.Channel, tiergate: Tiergate) -> None:
    sound, damaged = batch_of(range(100)), batch_of(range(100, 200))
    position = len(sound.encode())
    segment = tier_batches(
        tiergate,
        [sound, damaged],
        topic="corrupt",
        topic_id=TopicId.random(),
        end_offset=199,
        damage_at=position + 70,
    )
    stub = records_pb2_grpc.RecordServiceStub(channel)
    stream = stub.ReadRecords(pb.ReadRecordsRequest(partition=pb.RecordPartition(topic="corrupt")), timeout=TIMEOUT_S)
    given: list[int] = []

    def read() -> None:
        for message in stream:
            given.extend(record.offset for record in message.records)

    details = refused(read, DATA_LOSS, "CORRUPT_BATCH")
    assert (details["segment"], details["position"]) == (str(segment.segment_id), str(position))
    assert given == list(range(100)), "what comes before it is given"


def plan(**fields: object) -> pb.PlanReadRequest:
    return pb.PlanReadRequest(partition=ORDERS, **fields)  # type: ignore[arg-type]


def read(**fields: object) -> pb.ReadRecordsRequest:
    return pb.ReadRecordsRequest(partition=ORDERS, **fields)  # type: ignore[arg-type]


def find(**fields: object) -> pb.FindOffsetByTimeRequest:
    return pb.FindOffsetByTimeRequest(partition=ORDERS, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        *((make(**{field: -1}), field) for make in (plan, read) for field in ("start_offset", "stop_offset")),
        *((make(**{field: -1}), field) for make in (plan, read) for field in ("start_time_ms", "stop_time_ms")),
        *((make(log_start_offset=-1), "log_start_offset") for make in (plan, read, find)),
        *((make(isolation=0), "isolation") for make in (plan, read, find)),
        *((make(isolation=9), "isolation") for make in (plan, read, find)),
        *((make(start_offset=150, stop_offset=120), "stop_offset") for make in (plan, read)),
        (plan(split_bytes=0), "split_bytes"),
        (plan(split_records=0), "split_records"),
        (read(max_records=0), "max_records"),
        (read(max_bytes=-5), "max_bytes"),
        (read(format=0), "format"),
        (read(format=77), "format"),
        (read(columns=[0]), "columns"),
        (read(columns=[1, 1]), "columns"),
        (find(timestamp_ms=-1), "timestamp_ms"),
        (pb.ReadRecordsRequest(), "partition"),
    ],
    ids=lambda value: f"{type(value).__name__}" if not isinstance(value, str) else value,
)
def test_request_that_breaks_a_rule_is_refused_by_its_field(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, request_: Request, field: str
) -> None:
    assert refused(ask(channel, request_), INVALID, "INVALID_FIELD")["field"] == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (pb.ReadRecordsRequest(start_time_ms=5), "start_time_ms"),
        (pb.ReadRecordsRequest(stop_offset=150), "stop_offset"),
        (pb.ReadRecordsRequest(stop_time_ms=5), "stop_time_ms"),
        (pb.ReadRecordsRequest(isolation=COMMITTED), "isolation"),
        (pb.ReadRecordsRequest(log_start_offset=5), "log_start_offset"),
        (pb.ReadRecordsRequest(skip_missing=True), "skip_missing"),
        (pb.ReadRecordsRequest(start_offset=99), "start_offset"),
        (pb.ReadRecordsRequest(start_offset=201), "start_offset"),
        (pb.ReadRecordsRequest(split=pb.ReadSplit(version=-1)), "split.version"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_split_has_decided_is_refused_beside_it(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, change: pb.ReadRecordsRequest, field: str
) -> None:
    request = pb.ReadRecordsRequest(split=split_of(orders))
    request.MergeFrom(change)
    assert refused(ask(channel, request), INVALID, "INVALID_FIELD")["field"] == field


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda split: split.ClearField("ranges"), "split.ranges"),
        (lambda split: split.ClearField("partition"), "split.partition.topic_id"),
        (lambda split: setattr(split.ranges[0], "stop_position", 2**40), "split.ranges[0].start_position"),
        (lambda split: setattr(split.ranges[0], "start_offset", -1), "split.ranges[0].start_offset"),
        (lambda split: setattr(split.ranges[0].segment, "segment_id", b"x"), "split.ranges[0].segment.segment_id"),
        (lambda split: split.ranges.append(split.ranges[0]), "split.ranges"),
    ],
    ids=["ranges", "partition", "position", "offset", "segment", "order"],
)
def test_split_that_breaks_a_rule_is_refused_by_its_field(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, spoil: Callable[[pb.ReadSplit], None], field: str
) -> None:
    split = split_of(orders)
    spoil(split)
    assert refused(ask(channel, pb.ReadRecordsRequest(split=split)), INVALID, "INVALID_FIELD")["field"] == field


def test_split_of_a_newer_release_is_refused_by_its_version(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata
) -> None:
    split = split_of(orders)
    split.version = 2
    with pytest.raises(grpc.RpcError, match="version 2") as failure:
        ask(channel, pb.ReadRecordsRequest(split=split))()
    assert failure.value.code() is UNIMPLEMENTED


@pytest.mark.parametrize("make", [plan, read])
def test_offsets_that_are_not_tiered_are_refused_with_those_that_are(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, make: Callable[..., Request]
) -> None:
    for request in (make(start_offset=99), make(stop_offset=201), make(start_offset=5000)):
        details = refused(ask(channel, request), OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")
        assert (details["earliest"], details["latest"]) == ("100", "200")
    ask(channel, make(start_offset=200))()
    (first, *_) = ask(channel, make(start_offset=99, skip_missing=True))()
    assert [(one.start_offset, one.stop_offset) for one in first.missing] == [(99, 100)]


@pytest.mark.parametrize("kind", [pb.PlanReadRequest, pb.ReadRecordsRequest])
def test_hole_is_refused_by_its_offsets_unless_it_shall_be_passed(
    planes: Planes,
    channel: grpc.Channel,
    tiergate: Tiergate,
    kind: type[pb.PlanReadRequest | pb.ReadRecordsRequest],
) -> None:
    topic, topic_id = f"holes-{kind.__name__}", TopicId.random()
    for offsets in (range(10), range(20, 30)):
        tier_batches(tiergate, [batch_of(offsets)], topic=topic, topic_id=topic_id, end_offset=offsets[-1])
    partition = pb.RecordPartition(topic=topic)
    with pytest.raises(grpc.RpcError, match=r"10 to 19.*skip_missing") as failure:
        ask(channel, kind(partition=partition))()
    assert failure.value.code() is OUT_OF_RANGE
    skipped = metric(planes.segments, "tiergate_segments_skipped_offsets_total")
    (first, *_) = ask(channel, kind(partition=partition, skip_missing=True))()
    assert [(one.start_offset, one.stop_offset) for one in first.missing] == [(10, 20)]
    assert metric(planes.segments, "tiergate_segments_skipped_offsets_total") == skipped + 10
    (warning,) = [line for line in planes.segments.log_file.read_text().splitlines() if topic in line]
    assert "10 to 19" in warning


@pytest.mark.parametrize("make", [plan, read])
@pytest.mark.parametrize(
    "bounds",
    [
        {"start_time_ms": LATE_MS, "stop_offset": 150},
        {"start_time_ms": TIME_MS + 60, "stop_offset": 150},
        {"start_time_ms": LATE_MS, "log_start_offset": 5000},
        {"start_time_ms": TIME_MS, "log_start_offset": 5000},
        {"start_time_ms": LATE_MS, "log_start_offset": 5000, "stop_offset": 150},
        {"start_time_ms": LATE_MS, "stop_time_ms": LATE_MS},
        {"start_time_ms": TIME_MS + 60, "stop_time_ms": TIME_MS},
        {"start_offset": 150, "stop_time_ms": TIME_MS},
    ],
    ids="-".join,
)
def test_bounds_between_which_a_time_leaves_nothing_read_as_empty(
    channel: grpc.Channel, orders: RemoteLogSegmentMetadata, make: Callable[..., Request], bounds: dict[str, int]
) -> None:
    first, *others = ask(channel, make(**bounds))()
    assert first.stop_offset == (first.start_offset if isinstance(first, pb.PlanReadResponse) else first.next_offset)
    assert [one for one in others if isinstance(one, pb.PlanReadResponse) or one.records] == []


def test_raw_read_ends_at_its_stop_within_a_batch(channel: grpc.Channel, orders: RemoteLogSegmentMetadata) -> None:
    request = read(start_offset=120, stop_offset=150, format=pb.RECORD_FORMAT_RAW_BATCHES)
    messages = ask(channel, request)()
    assert [message.next_offset for message in messages] == [120, 150, 150]
    assert messages[1].data == batch_of(range(100, 200)).encode()


def test_epoch_of_a_found_offset_is_absent_where_the_batch_has_none(channel: grpc.Channel, tiergate: Tiergate) -> None:
    for epoch in (-1, 7):
        batch = batch_of(range(3)).but(leader_epoch=epoch)
        topic = f"epoch{epoch}"
        tier_batches(tiergate, [batch], topic=topic, topic_id=TopicId.random(), end_offset=2)
        answer = ask(channel, pb.FindOffsetByTimeRequest(partition=pb.RecordPartition(topic=topic)))()
        assert (answer.offset, answer.HasField("leader_epoch")) == (0, epoch == 7)


def test_record_larger_than_a_message_is_refused_and_can_be_read_raw(channel: grpc.Channel, tiergate: Tiergate) -> None:
    batches = [batch_of(range(5)), batch_of(range(5, 6), value=b"x" * 5 * MIB), batch_of(range(6, 9))]
    tier_batches(tiergate, batches, topic="large", topic_id=TopicId.random(), end_offset=8)
    stub = records_pb2_grpc.RecordServiceStub(channel)
    request = pb.ReadRecordsRequest(partition=pb.RecordPartition(topic="large"))
    offsets: list[int] = []

    def consume() -> None:
        for message in stub.ReadRecords(request, timeout=TIMEOUT_S):
            offsets.extend(record.offset for record in message.records)

    details = refused(consume, EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "message_bytes", "value": str(4 * MIB), "offset": "5"}
    request.start_offset = 6
    consume()
    assert offsets == [0, 1, 2, 3, 4, 6, 7, 8]
    request.start_offset = 5
    request.format = pb.RECORD_FORMAT_RAW_BATCHES
    _, *messages = stub.ReadRecords(request, timeout=TIMEOUT_S)
    assert [message.is_continued for message in messages] == [True, True, False, False, False]
    assert [message.next_offset for message in messages] == [5, 5, 6, 9, 9]
    assert b"".join(message.data for message in messages) == batches[1].encode() + batches[2].encode()
    with tiergate.records.read_raw_batches("large", 0) as raw:
        assert b"".join(raw) == b"".join(batch.encode() for batch in batches)


def test_more_aborted_transactions_than_a_message_holds_are_refused(channel: grpc.Channel, tiergate: Tiergate) -> None:
    count = 300_000
    batch = MadeBatch((MadeRecord(0, value=b"x"),), last_offset_delta=count)
    index = b"".join(struct.pack(">hqqqq", 0, 2**40 + number, 0, number, number) for number in range(count))
    tier_batches(tiergate, [batch], topic="aborted", topic_id=TopicId.random(), end_offset=count, txn_index=index)
    partition = pb.RecordPartition(topic="aborted")
    for request in (
        pb.PlanReadRequest(partition=partition, isolation=COMMITTED),
        pb.ReadRecordsRequest(partition=partition, isolation=COMMITTED, format=pb.RECORD_FORMAT_RAW_BATCHES),
    ):
        details = refused(ask(channel, request), EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "message_bytes", "value": str(4 * MIB)}


def test_read_over_a_quota_is_told_to_come_again(channel: grpc.Channel, tiergate: Tiergate) -> None:
    batches = [batch_of(range(number, number + 1), value=b"x" * 300_000) for number in range(4)]
    tier_batches(tiergate, batches, topic="crawling", topic_id=TopicId.random(), end_offset=3)
    request = pb.ReadRecordsRequest(partition=pb.RecordPartition(topic="crawling"))
    details = refused(ask(channel, request), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details["limit"] == "topic_fetch_bytes_per_second.crawling"


def test_reads_and_splits_above_the_limits_are_refused_and_stalled_reads_ended(tmp_path: Path) -> None:
    with (
        running_planes(
            tmp_path,
            segments__limits__record_reads="1",
            segments__limits__plan_splits="31",
            segments__stall_seconds="2",
            segments__metrics="127.0.0.1:0",
        ) as planes,
        connect(planes.target) as tiergate,
        channel_to(planes.segments.address) as channel,
    ):
        batches = [batch_of(range(number, number + 1), value=b"x" * MIB) for number in range(32)]
        tier_batches(tiergate, batches, topic="orders", topic_id=TopicId.random(), end_offset=31)
        for too_fine in (plan(split_bytes=MIB), plan(split_records=1), plan(split_bytes=1, start_offset=0)):
            details = refused(ask(channel, too_fine), EXHAUSTED, "LIMIT_EXCEEDED")
            assert details == {"limit": "plan_splits", "value": "31"}
        for coarse in (plan(), plan(split_records=2), plan(split_bytes=1, stop_offset=31)):
            ask(channel, coarse)()
        assert tiergate.server_info("segments").limits["plan_splits"] == 31
        held = records_pb2_grpc.RecordServiceStub(channel).ReadRecords(read(), timeout=60)
        next(held)
        for request in (plan(), read(), find()):
            details = refused(ask(channel, request), EXHAUSTED, "LIMIT_EXCEEDED")
            assert details == {"limit": "record_reads", "value": "1"}
        wait_until(lambda: calls_in_flight(planes.segments) == 0)
        with pytest.raises(grpc.RpcError) as ended:
            list(held)
        assert ended.value.code() is grpc.StatusCode.CANCELLED
        with tiergate.records.read_records("orders", 0) as stream:
            assert len(list(stream)) == 32
