from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metadata_events import segments
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField
from tiergate_client.ids import LogId, SegmentId, TopicId
from tiergate_client.values import (
    ConsistencyToken,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentState,
    TopicIdPartition,
)

PARTITION = TopicIdPartition(TopicId(b"T" * 16), 3, "orders")
SEGMENT = RemoteLogSegmentMetadata(
    partition=PARTITION,
    segment_id=SegmentId(b"S" * 16),
    start_offset=10,
    end_offset=20,
    segment_leader_epochs=LeaderEpochs.of({0: 10}),
    segment_size_bytes=100,
    custom_metadata=b"custom",
)
LOG = LogId(b"L" * 16)


@pytest.mark.parametrize("name", ["a", "a" * 249, "...", "Az09._-", "-"])
def test_legal_topic_name_is_accepted(name: str) -> None:
    assert TopicIdPartition(PARTITION.topic_id, 0, name).topic == name


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "../a", "a b", "a\n", "ä", "a\0", "a:b"])
def test_illegal_topic_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        TopicIdPartition(PARTITION.topic_id, 0, name)
    assert refusal.value.details == {"field": "topic"}


@pytest.mark.parametrize("number", [-1, 2**31])
def test_partition_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidField, match="partition"):
        TopicIdPartition(PARTITION.topic_id, number, "orders")


def test_partitions_are_compared_by_id_and_number_alone() -> None:
    renamed = TopicIdPartition(PARTITION.topic_id, 3, "other")
    assert renamed == PARTITION
    assert hash(renamed) == hash(PARTITION)
    assert TopicIdPartition(PARTITION.topic_id, 4, "orders") != PARTITION
    assert TopicIdPartition(TopicId(b"U" * 16), 3, "orders") != PARTITION


STARTED, FINISHED, DELETING, DELETED = SegmentState
LEGAL = {
    *((state, state) for state in SegmentState),
    (STARTED, FINISHED),
    (STARTED, DELETING),
    (FINISHED, DELETING),
    (DELETING, DELETED),
}


@pytest.mark.parametrize(("state", "target"), list(product(SegmentState, SegmentState)))
def test_steps_are_those_of_kafka(state: SegmentState, target: SegmentState) -> None:
    assert state.may_become(target) is ((state, target) in LEGAL)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_offset", -1),
        ("start_offset", 2**63),
        ("end_offset", 9),
        ("end_offset", 2**63),
        ("segment_size_bytes", 2**31),
        ("max_timestamp_ms", 2**63),
        ("event_timestamp_ms", -(2**63) - 1),
        ("broker_id", 2**31),
        ("segment_leader_epochs", LeaderEpochs(())),
    ],
)
def test_field_against_the_rules_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidField) as refusal:
        replace(SEGMENT, **{field: value})  # type: ignore[arg-type]
    assert refusal.value.details == {"field": field}


@pytest.mark.parametrize("custom_metadata", [None, b"", b"other"])
def test_update_replaces_what_it_carries_and_keeps_the_rest(custom_metadata: bytes | None) -> None:
    update = RemoteLogSegmentMetadataUpdate(
        partition=PARTITION,
        segment_id=SEGMENT.segment_id,
        state=FINISHED,
        custom_metadata=custom_metadata,
        event_timestamp_ms=5,
        broker_id=6,
    )
    assert SEGMENT.updated_by(update) == replace(
        SEGMENT, state=FINISHED, custom_metadata=custom_metadata, event_timestamp_ms=5, broker_id=6
    )


def test_step_repeats_the_custom_metadata_unless_another_is_given() -> None:
    assert SEGMENT.step(DELETING, event_timestamp_ms=1).custom_metadata == b"custom"
    assert SEGMENT.step(FINISHED, event_timestamp_ms=1, custom_metadata=b"").custom_metadata == b""


@given(metadata=segments(), broker_id=st.integers(-1, 9), event_timestamp_ms=st.integers(-1, 9))
def test_content_is_the_same_whoever_announced_it_when(
    metadata: RemoteLogSegmentMetadata, broker_id: int, event_timestamp_ms: int
) -> None:
    again = replace(metadata, broker_id=broker_id, event_timestamp_ms=event_timestamp_ms)
    assert metadata.has_same_content(again)
    assert not metadata.has_same_content(replace(again, txn_index_empty=not again.txn_index_empty))
    assert not metadata.has_same_content(replace(again, custom_metadata=b"x" * 301))


applied = st.dictionaries(st.integers(0, 5), st.integers(-1, 9))


@given(one=applied, other=applied, third=applied)
def test_merging_tokens_is_the_pointwise_maximum(
    one: dict[int, int], other: dict[int, int], third: dict[int, int]
) -> None:
    a, b, c = (ConsistencyToken(LOG, offsets) for offsets in (one, other, third))
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))
    assert a.merged(a) == a
    for partition in one.keys() | other.keys():
        expected = max(one.get(partition, -1), other.get(partition, -1))
        assert a.merged(b).applied_offsets[partition] == expected


def test_tokens_of_different_logs_are_not_merged() -> None:
    with pytest.raises(ValueError, match="cannot be merged"):
        ConsistencyToken(LOG, {}).merged(ConsistencyToken(LogId(b"M" * 16), {}))
