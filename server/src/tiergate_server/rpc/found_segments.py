"""What lookups found, as messages: written straight from the form in which segments are kept.

It must say what `write_metadata` says of the same segment, which a test holds it to; values are not built, since that
takes longer than everything else about a lookup. What is listed goes the plain way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import types_pb2
from tiergate_client.conversions import question_from_proto, state_to_proto
from tiergate_client.errors import TiergateError
from tiergate_client.status import to_status
from tiergate_client.values import SegmentQuestion
from tiergate_server.metadata import packed_segment
from tiergate_server.metadata.packed_segment import PackedSegment

# The loop is not held for longer: single calls wait behind it.
_SLICE_S = 0.002
_LOOK_AT_THE_CLOCK_EVERY = 64


async def read_questions(messages: Sequence[pb.SegmentQuestion]) -> list[SegmentQuestion]:
    pace = _Pace()
    questions: list[SegmentQuestion] = []
    for begin in range(0, len(messages), _LOOK_AT_THE_CLOCK_EVERY):
        questions += map(question_from_proto, messages[begin : begin + _LOOK_AT_THE_CLOCK_EVERY])
        await pace.keep()
    return questions


async def write_answers(
    answers: Sequence[PackedSegment | TiergateError | None], response: pb.FindSegmentsResponse
) -> None:
    pace = _Pace()
    add = response.answers.add
    for begin in range(0, len(answers), _LOOK_AT_THE_CLOCK_EVERY):
        for answer in answers[begin : begin + _LOOK_AT_THE_CLOCK_EVERY]:
            message = add()
            if isinstance(answer, PackedSegment):
                write_packed(answer, message.segment)
            elif answer is not None:
                message.status.CopyFrom(to_status(answer))
        await pace.keep()


def write_packed(segment: PackedSegment, message: types_pb2.RemoteLogSegmentMetadata) -> None:
    (
        start,
        end,
        max_timestamp_ms,
        event_timestamp_ms,
        size,
        broker_id,
        epochs,
        custom_metadata,
        state,
        txn_index_empty,
    ) = packed_segment.fields(segment.packed)
    partition = message.partition
    partition.topic = segment.partition.topic
    partition.topic_id = segment.partition.topic_id.raw
    partition.partition = segment.partition.partition
    message.segment_id = segment.raw_id
    message.start_offset = start
    message.end_offset = end
    message.max_timestamp_ms = max_timestamp_ms
    message.broker_id = broker_id
    message.event_timestamp_ms = event_timestamp_ms
    message.segment_size_bytes = size
    for epoch, epoch_start in epochs:
        message.segment_leader_epochs.add(leader_epoch=epoch, start_offset=epoch_start)
    if custom_metadata is not None:
        message.custom_metadata = custom_metadata
    message.state = state_to_proto(state)
    message.txn_index_empty = txn_index_empty


class _Pace:
    """Lets others run when a slice of time is used up."""

    def __init__(self) -> None:
        self._slice_end = time.monotonic() + _SLICE_S

    async def keep(self) -> None:
        if time.monotonic() > self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = time.monotonic() + _SLICE_S
