"""Read splits as messages and bytes: what goes out comes back, and what is newer or broken is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.segments import make_metadata
from tiergate.v1 import records_pb2 as pb
from tiergate_client.errors import InvalidField, NotOffered
from tiergate_client.ids import TopicId
from tiergate_client.record_conversions import (
    SPLIT_VERSION,
    split_from_bytes,
    split_from_proto,
    split_to_bytes,
    split_to_proto,
)
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.transaction_index import AbortedTransaction

OFFSETS = st.integers(0, 2**63 - 1)


@st.composite
def splits(draw: st.DrawFn) -> ReadSplit:
    borders = sorted(draw(st.lists(OFFSETS, min_size=2, max_size=8)))
    ranges = []
    topic_id = TopicId.random()
    for start, stop in zip(borders[::2], borders[1::2], strict=False):
        segment = make_metadata(
            topic_id=topic_id,
            custom_metadata=draw(st.none() | st.binary(max_size=8)),
            segment_size_bytes=draw(st.integers(0, 2**31 - 1)),
        )
        first, last = sorted(draw(st.tuples(*[st.integers(0, segment.segment_size_bytes)] * 2)))
        ranges.append(SegmentRange(segment, start, stop, first, last))
    aborted = draw(st.lists(st.builds(AbortedTransaction, *[st.integers(-(2**63), 2**63 - 1)] * 4), max_size=3))
    return ReadSplit(ranges[0].segment.partition, tuple(ranges), tuple(aborted))


@given(split=splits())
def test_split_comes_back_as_it_went(split: ReadSplit) -> None:
    assert split_from_proto(split_to_proto(split)) == split
    assert split_from_bytes(split_to_bytes(split)) == split
    assert split_from_bytes(split_to_bytes(split)).partition.topic == split.partition.topic


def message() -> pb.ReadSplit:
    segment = make_metadata()
    return split_to_proto(ReadSplit(segment.partition, (SegmentRange(segment, 100, 200, 0, 1000),)))


def test_split_of_a_newer_release_is_refused_by_its_version() -> None:
    newer = message()
    newer.version = SPLIT_VERSION + 1
    with pytest.raises(NotOffered, match=f"version {SPLIT_VERSION + 1}"):
        split_from_bytes(newer.SerializeToString())


def test_bytes_that_are_no_split_are_refused() -> None:
    with pytest.raises(InvalidField, match="are no read split"):
        split_from_bytes(b"\xff\xff")
    with pytest.raises(InvalidField) as failure:
        split_from_bytes(b"")
    assert failure.value.details["field"] == "split.version"


def test_ranges_that_overlap_are_refused() -> None:
    twice = message()
    twice.ranges.append(twice.ranges[0])
    with pytest.raises(InvalidField) as failure:
        split_from_proto(twice)
    assert failure.value.details["field"] == "ranges"


@pytest.mark.parametrize("other", [{}, {"partition": 1}, {"topic": "invoices"}])
def test_segment_of_another_partition_is_refused(other: dict[str, Any]) -> None:
    segment = make_metadata()
    named: dict[str, Any] = {"topic_id": segment.partition.topic_id, **other} if other else {}
    ranges = (SegmentRange(segment, 100, 150, 0, 500), SegmentRange(make_metadata(**named), 150, 200, 0, 500))
    with pytest.raises(InvalidField) as failure:
        split_from_bytes(split_to_bytes(ReadSplit(segment.partition, ranges)))
    assert failure.value.details["field"] == "split.ranges[1].segment"


def test_field_of_a_range_is_named_with_its_place() -> None:
    broken = message()
    broken.ranges[0].segment.segment_id = b"x"
    with pytest.raises(InvalidField) as failure:
        split_from_proto(broken)
    assert failure.value.details["field"] == "ranges[0].segment.segment_id"
