from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.manifests import manifests
from support.metadata_events import ids, int32, int64, offsets, partitions, segments, updates
from tiergate.v1 import metadata_pb2, types_pb2
from tiergate_client import conversions
from tiergate_client.errors import InvalidField
from tiergate_client.ids import LogId
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.values import (
    ConsistencyToken,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentState,
    TopicIdPartition,
)

tokens = st.builds(ConsistencyToken, st.builds(LogId, ids), st.dictionaries(int32, int64))
summaries = st.builds(
    PartitionSummary,
    partition=partitions,
    metadata_partition=int32,
    segment_count=offsets,
    finished_segment_count=offsets,
    finished_size_bytes=offsets,
    start_offset=st.none() | offsets,
    end_offset=st.none() | offsets,
    ready=st.booleans(),
)


@given(partition=partitions)
def test_partition_survives_the_wire_with_its_name(partition: TopicIdPartition) -> None:
    sent = conversions.partition_to_proto(partition).SerializeToString()
    received = conversions.partition_from_proto(types_pb2.TopicIdPartition.FromString(sent))
    assert (received, received.topic) == (partition, partition.topic)


@given(metadata=segments().filter(lambda metadata: metadata.segment_size_bytes >= 0))
def test_segment_survives_the_wire(metadata: RemoteLogSegmentMetadata) -> None:
    sent = conversions.metadata_to_proto(metadata).SerializeToString()
    received = types_pb2.RemoteLogSegmentMetadata.FromString(sent)
    assert conversions.metadata_from_proto(received, "segment") == metadata


@given(update=updates)
def test_update_survives_the_wire(update: RemoteLogSegmentMetadataUpdate) -> None:
    sent = conversions.update_to_proto(update, None).SerializeToString()
    assert conversions.update_from_proto(metadata_pb2.UpdateSegmentRequest.FromString(sent)) == update


@given(token=tokens)
def test_token_survives_the_wire(token: ConsistencyToken) -> None:
    sent = conversions.token_to_proto(token).SerializeToString()
    assert conversions.token_from_proto(types_pb2.ConsistencyToken.FromString(sent)) == token


@given(summary=summaries)
def test_summary_survives_the_wire(summary: PartitionSummary) -> None:
    sent = conversions.summary_to_proto(summary).SerializeToString()
    assert conversions.summary_from_proto(metadata_pb2.PartitionSummary.FromString(sent)) == summary


@given(manifest=manifests())
def test_manifest_survives_the_wire(manifest: SegmentManifest) -> None:
    sent = conversions.manifest_to_proto(manifest).SerializeToString()
    received = conversions.manifest_from_proto(types_pb2.SegmentManifest.FromString(sent), "manifest")
    assert received == manifest
    assert received.upload_digest == manifest.upload_digest


@pytest.mark.parametrize("state", SegmentState)
def test_state_survives_the_wire(state: SegmentState) -> None:
    assert conversions.state_from_proto(conversions.state_to_proto(state)) is state


@pytest.mark.parametrize("file", SegmentFile)
def test_file_survives_the_wire(file: SegmentFile) -> None:
    assert conversions.file_from_proto(conversions.file_to_proto(file)) is file


def test_every_number_that_the_wire_names_is_known_but_unspecified() -> None:
    states = [number for number in types_pb2.SegmentState.values() if number]
    assert sorted(conversions.state_from_proto(number) for number in states) == list(SegmentState)
    files = [number for number in types_pb2.SegmentFile.values() if number]
    assert {conversions.file_from_proto(number) for number in files} == set(SegmentFile)


def broken_segment(change: Callable[[types_pb2.RemoteLogSegmentMetadata], object]) -> types_pb2.SegmentManifest:
    message = types_pb2.SegmentManifest(
        metadata=types_pb2.RemoteLogSegmentMetadata(
            partition=types_pb2.TopicIdPartition(topic="foo", topic_id=bytes(16), partition=0),
            segment_id=bytes(16),
            segment_leader_epochs=[types_pb2.SegmentLeaderEpoch(leader_epoch=1, start_offset=0)],
            state=types_pb2.SEGMENT_STATE_COPY_STARTED,
        )
    )
    change(message.metadata)
    return message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda segment: segment.partition.MergeFrom(types_pb2.TopicIdPartition(topic="f/o")), "partition.topic"),
        (lambda segment: setattr(segment.partition, "topic_id", bytes(15)), "partition.topic_id"),
        (lambda segment: setattr(segment.partition, "partition", -1), "partition.partition"),
        (lambda segment: setattr(segment, "segment_id", bytes(17)), "segment_id"),
        (lambda segment: setattr(segment, "start_offset", -1), "start_offset"),
        (lambda segment: setattr(segment, "end_offset", -1), "end_offset"),
        (lambda segment: setattr(segment, "segment_size_bytes", 2**31), "segment_size_bytes"),
        (lambda segment: setattr(segment, "state", 0), "state"),
        (lambda segment: setattr(segment, "state", 99), "state"),
        (lambda segment: segment.ClearField("segment_leader_epochs"), "segment_leader_epochs"),
        (
            lambda segment: segment.segment_leader_epochs.add(leader_epoch=0, start_offset=5),
            "segment_leader_epochs.leader_epoch",
        ),
    ],
)
def test_complaint_names_the_whole_path_of_the_field(
    change: Callable[[types_pb2.RemoteLogSegmentMetadata], object], field: str
) -> None:
    with pytest.raises(InvalidField) as refusal:
        conversions.manifest_from_proto(broken_segment(change), "manifest")
    assert refusal.value.details == {"field": f"manifest.metadata.{field}"}
    assert refusal.value.message.startswith(f"manifest.metadata.{field}: ")


def test_token_with_a_short_log_id_is_refused() -> None:
    with pytest.raises(InvalidField) as refusal:
        conversions.token_from_proto(types_pb2.ConsistencyToken(log_id=bytes(15)))
    assert refusal.value.details == {"field": "token.log_id"}


@pytest.mark.parametrize("number", [0, 99])
def test_manifest_with_an_unknown_file_is_refused(number: int) -> None:
    message = broken_segment(lambda _: None)
    message.files.add().file = number  # type: ignore[assignment]
    with pytest.raises(InvalidField) as refusal:
        conversions.manifest_from_proto(message, "manifest")
    assert refusal.value.details == {"field": "manifest.files.file"}


def test_manifest_that_names_a_file_twice_is_refused() -> None:
    message = broken_segment(lambda _: None)
    for _ in range(2):
        message.files.add(file=types_pb2.SEGMENT_FILE_LOG)
    with pytest.raises(InvalidField, match="log is named twice"):
        conversions.manifest_from_proto(message, "manifest")


def test_token_that_names_many_partitions_is_read_but_not_remembered() -> None:
    token = ConsistencyToken(LogId.random(), dict.fromkeys(range(50), 5))
    remembered = conversions._token_of.cache_info().currsize
    assert conversions.token_from_proto(conversions.token_to_proto(token)) == token
    assert conversions._token_of.cache_info().currsize == remembered
