"""Answers to many lookups: they say the same as those to single ones, and do not hold the event loop."""

from __future__ import annotations

import asyncio

from hypothesis import given

from support.metadata_events import segments
from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import types_pb2
from tiergate_client.conversions import metadata_to_proto, question_to_proto
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import MetadataNotReady
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.status import to_status
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentQuestion, TopicIdPartition
from tiergate_server.metadata.packed_segment import PackedSegment, pack
from tiergate_server.rpc.found_segments import read_questions, write_answers, write_packed

PARTITION = TopicIdPartition(TopicId(b"T" * 16), 3, "orders")
SEGMENT = RemoteLogSegmentMetadata(PARTITION, SegmentId(b"S" * 16), 0, 9, LeaderEpochs.of({0: 0}), 1000)
MANY = 50_000  # take far longer than a slice


def packed(metadata: RemoteLogSegmentMetadata) -> PackedSegment:
    return PackedSegment(metadata.partition, metadata.segment_id.raw, pack(metadata))


@given(metadata=segments())
def test_a_packed_segment_is_written_as_its_value_is(metadata: RemoteLogSegmentMetadata) -> None:
    message = types_pb2.RemoteLogSegmentMetadata()
    write_packed(packed(metadata), message)
    assert message == metadata_to_proto(metadata)
    assert packed(metadata).value() == metadata


def test_answers_are_segments_nothing_or_failures_in_their_order() -> None:
    failure = MetadataNotReady("not yet")
    response = pb.FindSegmentsResponse()
    asyncio.run(write_answers([packed(SEGMENT), None, failure], response))
    assert list(response.answers) == [
        pb.SegmentAnswer(segment=metadata_to_proto(SEGMENT)),
        pb.SegmentAnswer(),
        pb.SegmentAnswer(status=to_status(failure)),
    ]


def test_others_run_while_many_questions_are_read_and_answered() -> None:
    question = SegmentQuestion(PARTITION, 0, 5)
    request = pb.FindSegmentsRequest(questions=[question_to_proto(question)] * MANY)
    response = pb.FindSegmentsResponse()

    async def turns_of_another_task() -> tuple[int, int]:
        turns = 0

        async def run() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(run())
        await read_questions(request.questions)
        while_reading = turns
        await write_answers([packed(SEGMENT)] * MANY, response)
        other.cancel()
        return while_reading, turns - while_reading

    while_reading, while_writing = asyncio.run(turns_of_another_task())
    assert min(while_reading, while_writing) >= 5
    assert len(response.answers) == MANY
