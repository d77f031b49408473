"""Every row of metadata.proto's tables that the contract suite cannot reach through the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from support.planes import Planes
from support.wire import TIMEOUT_S, channel_to, refused
from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import metadata_pb2_grpc, server_info_pb2, server_info_pb2_grpc, types_pb2
from tiergate_client.conversions import metadata_to_proto, partition_to_proto

INVALID, PRECONDITION = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION

Stub = metadata_pb2_grpc.RemoteLogMetadataServiceStub
Segment = types_pb2.RemoteLogSegmentMetadata


@pytest.fixture
def channel(planes: Planes) -> Iterator[grpc.Channel]:
    with channel_to(planes.target) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> Stub:
    return Stub(channel)


def spoil_segment_id(segment: Segment) -> None:
    segment.segment_id = b"x" * 15


def spoil_topic_id(segment: Segment) -> None:
    segment.partition.topic_id = b""


def spoil_topic(segment: Segment) -> None:
    segment.partition.topic = "a/../b"


def no_topic(segment: Segment) -> None:
    segment.partition.topic = ""


def spoil_partition(segment: Segment) -> None:
    segment.partition.partition = -1


def state_unspecified(segment: Segment) -> None:
    segment.state = types_pb2.SEGMENT_STATE_UNSPECIFIED


def state_unknown(segment: Segment) -> None:
    segment.state = 99  # type: ignore[assignment]


def negative_start(segment: Segment) -> None:
    segment.start_offset = -1


def end_before_start(segment: Segment) -> None:
    segment.end_offset = segment.start_offset - 1


def size_above_int32(segment: Segment) -> None:
    segment.segment_size_bytes = 2**31


def no_epochs(segment: Segment) -> None:
    del segment.segment_leader_epochs[:]


def epochs_out_of_order(segment: Segment) -> None:
    segment.segment_leader_epochs.add(leader_epoch=0, start_offset=5)


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (spoil_segment_id, "segment.segment_id"),
        (spoil_topic_id, "segment.partition.topic_id"),
        (spoil_topic, "segment.partition.topic"),
        (no_topic, "segment.partition.topic"),
        (spoil_partition, "segment.partition.partition"),
        (state_unspecified, "segment.state"),
        (state_unknown, "segment.state"),
        (negative_start, "segment.start_offset"),
        (end_before_start, "segment.end_offset"),
        (size_above_int32, "segment.segment_size_bytes"),
        (no_epochs, "segment.segment_leader_epochs"),
        (epochs_out_of_order, "segment.segment_leader_epochs.leader_epoch"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_malformed_segment_is_refused_by_field(stub: Stub, spoil: Callable[[Segment], None], field: str) -> None:
    message = metadata_to_proto(new_segment(new_partition(), 10, 19))
    spoil(message)
    request = pb.AddSegmentRequest(segment=message)
    assert refused(lambda: stub.AddSegment(request, timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")["field"] == field


def test_malformed_questions_are_refused_by_field(stub: Stub) -> None:
    partition = partition_to_proto(new_partition())
    questions: dict[str, Callable[[], object]] = {
        "segment_id": lambda: stub.GetSegment(pb.GetSegmentRequest(segment_id=b"short"), timeout=TIMEOUT_S),
        "offset": lambda: stub.FindSegment(pb.FindSegmentRequest(partition=partition, offset=-1), timeout=TIMEOUT_S),
        "partition.topic_id": lambda: stub.GetHighestOffset(pb.GetHighestOffsetRequest(), timeout=TIMEOUT_S),
        "page_size": lambda: stub.ListSegments(
            pb.ListSegmentsRequest(partition=partition, page_size=-1), timeout=TIMEOUT_S
        ),
        "page_token": lambda: stub.ListSegments(
            pb.ListSegmentsRequest(partition=partition, page_token=b"garbage"), timeout=TIMEOUT_S
        ),
        "token.log_id": lambda: stub.ListPartitions(
            pb.ListPartitionsRequest(token=types_pb2.ConsistencyToken(log_id=b"x" * 15)), timeout=TIMEOUT_S
        ),
        "state": lambda: stub.UpdateSegment(
            pb.UpdateSegmentRequest(partition=partition, segment_id=b"x" * 16), timeout=TIMEOUT_S
        ),
    }
    for field, ask in questions.items():
        assert refused(ask, INVALID, "INVALID_FIELD")["field"] == field
    for garbage in (b"x" * 21 + b"/", b"x" * 24 + b"\xff", b"short"):
        request = pb.ListPartitionsRequest(page_token=garbage)
        refused(partial(stub.ListPartitions, request, timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")


def test_page_size_above_the_limit_is_refused_by_name(stub: Stub) -> None:
    partition = partition_to_proto(new_partition())
    for ask in (
        lambda: stub.ListSegments(pb.ListSegmentsRequest(partition=partition, page_size=1001), timeout=TIMEOUT_S),
        lambda: stub.ListPartitions(pb.ListPartitionsRequest(page_size=1001), timeout=TIMEOUT_S),
    ):
        details = refused(ask, grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
        assert details == {"limit": "page_size", "value": "1000"}


def test_small_pages_list_everything_once(stub: Stub) -> None:
    partition = new_partition()
    segments = [new_segment(partition, start, start + 9) for start in range(0, 70, 10)]
    for segment in segments:
        stub.AddSegment(pb.AddSegmentRequest(segment=metadata_to_proto(segment)), timeout=TIMEOUT_S)
    listed: list[bytes] = []
    page_token, pages = b"", 0
    while pages == 0 or page_token:
        page = stub.ListSegments(
            pb.ListSegmentsRequest(partition=partition_to_proto(partition), page_size=3, page_token=page_token),
            timeout=TIMEOUT_S,
        )
        listed += [segment.segment_id for segment in page.segments]
        page_token, pages = page.next_page_token, pages + 1
    assert listed == [segment.segment_id.raw for segment in segments]
    assert pages == 3


def test_token_of_another_server_is_log_changed(stub: Stub) -> None:
    token = types_pb2.ConsistencyToken(log_id=b"another log here", applied_offsets={0: 5})
    request = pb.ListPartitionsRequest(token=token)
    refused(lambda: stub.ListPartitions(request, timeout=TIMEOUT_S), PRECONDITION, "LOG_CHANGED")
    add = pb.AddSegmentRequest(token=token, segment=metadata_to_proto(new_segment(new_partition(), 0, 9)))
    refused(lambda: stub.AddSegment(add, timeout=TIMEOUT_S), PRECONDITION, "LOG_CHANGED")


def test_token_beyond_the_end_of_the_log_is_log_changed(stub: Stub) -> None:
    partition = new_partition()
    token = stub.AddSegment(
        pb.AddSegmentRequest(segment=metadata_to_proto(new_segment(partition, 0, 9))), timeout=TIMEOUT_S
    ).token
    ((home, offset),) = token.applied_offsets.items()
    token.applied_offsets[home] = offset + 1000
    request = pb.FindSegmentRequest(token=token, partition=partition_to_proto(partition))
    refused(lambda: stub.FindSegment(request, timeout=TIMEOUT_S), PRECONDITION, "LOG_CHANGED")


def test_every_answer_carries_the_token_of_its_partition(stub: Stub) -> None:
    segment = new_segment(new_partition(), 0, 9)
    added = stub.AddSegment(pb.AddSegmentRequest(segment=metadata_to_proto(segment)), timeout=TIMEOUT_S)
    ((home, offset),) = added.token.applied_offsets.items()
    assert offset >= 0
    found = stub.FindSegment(
        pb.FindSegmentRequest(token=added.token, partition=partition_to_proto(segment.partition)), timeout=TIMEOUT_S
    )
    assert found.token.log_id == added.token.log_id
    assert found.token.applied_offsets[home] >= offset


def test_message_above_the_transports_limit_is_refused_and_the_server_goes_on(stub: Stub) -> None:
    message = metadata_to_proto(new_segment(new_partition(), 0, 9))
    message.custom_metadata = b"x" * (4 * 1024 * 1024)
    with pytest.raises(grpc.RpcError) as failure:
        stub.AddSegment(pb.AddSegmentRequest(segment=message), timeout=TIMEOUT_S)
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert stub.ListPartitions(pb.ListPartitionsRequest(), timeout=TIMEOUT_S).token.log_id


def test_method_that_is_not_offered_is_unimplemented(channel: grpc.Channel) -> None:
    call: Any = channel.unary_unary("/tiergate.v1.RemoteLogMetadataService/NotOffered")
    with pytest.raises(grpc.RpcError) as failure:
        call(b"", timeout=TIMEOUT_S)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_both_planes_say_what_they_are(planes: Planes) -> None:
    for address, plane in (
        (planes.target, server_info_pb2.PLANE_METADATA),
        (planes.segments.address, server_info_pb2.PLANE_SEGMENTS),
    ):
        with channel_to(address) as channel:
            info = server_info_pb2_grpc.ServerInfoServiceStub(channel).GetServerInfo(
                server_info_pb2.GetServerInfoRequest(), timeout=TIMEOUT_S
            )
        assert (info.plane, info.ready) == (plane, True)
        assert info.segments_address == planes.segments.address
        assert info.limits["message_bytes"] == 4 * 1024 * 1024
        assert info.version
        assert info.backend.startswith(("embedded:", "file:"))


def test_reflection_lists_the_services(planes: Planes) -> None:
    with channel_to(planes.target) as metadata, channel_to(planes.segments.address) as segments:
        assert "tiergate.v1.RemoteLogMetadataService" in ProtoReflectionDescriptorDatabase(metadata).get_services()
        database = ProtoReflectionDescriptorDatabase(segments)
        assert "tiergate.v1.RemoteStorageService" in database.get_services()
        described = database.FindFileContainingSymbol("tiergate.v1.RemoteStorageService")
        assert described.name == "tiergate/v1/storage.proto"
