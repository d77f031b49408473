"""The client's Admin against a real metadata plane."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.planes import Planes, running_planes
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to
from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import metadata_pb2_grpc
from tiergate_client import RemoteLogSegmentMetadata, SegmentState, Tiergate, TopicId, connect
from tiergate_client.errors import InvalidField, NotHosted, NotOffered, Unavailable
from tiergate_server.metadata.partitioner import metadata_partition, metadata_partition_of
from tiergate_server.metadata.replica import as_ranges

EVERYTHING = tuple(range(50))


@pytest.fixture
def own_planes(tmp_path: Path) -> Iterator[Planes]:
    """For tests that change what the plane hosts, or end it."""
    with running_planes(tmp_path / "data", metadata__metrics="127.0.0.1:0") as running:
        yield running


@pytest.fixture
def tiergate(own_planes: Planes) -> Iterator[Tiergate]:
    with connect(own_planes.target, timeout_s=20) as connected:
        yield connected


def finished_segment(tiergate: Tiergate, *, away_from: int | None = None) -> RemoteLogSegmentMetadata:
    """Of a new partition, whose events are not in the metadata partition `away_from`."""
    segment = new_segment(new_partition("orders"), 0, 9)
    while home(segment) == away_from:
        segment = new_segment(new_partition("orders"), 0, 9)
    tiergate.metadata.add_segment(segment)
    tiergate.metadata.update_segment(segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1))
    return segment


def home(segment: RemoteLogSegmentMetadata) -> int:
    return metadata_partition(segment.partition, partition_count=len(EVERYTHING))


def hosted(tiergate: Tiergate) -> tuple[int, ...]:
    return tuple(partition.metadata_partition for partition in tiergate.admin.get_assignment().hosted)


def all_ready(tiergate: Tiergate) -> bool:
    return all(partition.ready for partition in tiergate.admin.get_assignment().hosted)


def listing_is_partial(planes: Planes) -> bool:
    with channel_to(planes.target) as channel:
        stub = metadata_pb2_grpc.RemoteLogMetadataServiceStub(channel)
        return stub.ListPartitions(pb.ListPartitionsRequest(), timeout=TIMEOUT_S).partial


def events_applied(planes: Planes) -> int:
    with urllib.request.urlopen(f"http://{planes.metadata.metrics}/metrics") as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("tiergate_metadata_events_applied_total "):
                return int(float(line.split()[1]))
    raise AssertionError("the metric is missing")


def test_assignment_is_everything_at_first_with_the_applied_offsets(tiergate: Tiergate) -> None:
    segment = finished_segment(tiergate)
    assignment = tiergate.admin.get_assignment()
    assert assignment.partition_count == len(EVERYTHING)
    assert tuple(partition.metadata_partition for partition in assignment.hosted) == EVERYTHING
    assert {partition.metadata_partition: partition.applied_offset for partition in assignment.hosted} == {
        **dict.fromkeys(EVERYTHING, -1),
        home(segment): 1,
    }
    assert all(partition.ready and partition.corrupt_at is None for partition in assignment.hosted)


def test_removed_partitions_answer_not_hosted_and_come_back_with_everything(
    tiergate: Tiergate, own_planes: Planes
) -> None:
    segment = finished_segment(tiergate)
    kept = tuple(number for number in EVERYTHING if number != home(segment))
    assert tiergate.admin.set_assignment(metadata_partitions=kept) == kept
    assert hosted(tiergate) == kept
    with pytest.raises(NotHosted) as refusal:
        tiergate.metadata.find_segment(segment.partition, leader_epoch=0, offset=5)
    assert refusal.value.details["hosted"] == as_ranges(kept)
    assert listing_is_partial(own_planes)
    assert list(tiergate.metadata.list_partitions()) == []
    other = finished_segment(tiergate, away_from=home(segment))  # the rest is undisturbed

    assert tiergate.admin.set_assignment() == EVERYTHING
    wait_until(lambda: all_ready(tiergate))
    assert not listing_is_partial(own_planes)
    for each in (segment, other):
        found = tiergate.metadata.find_segment(each.partition, leader_epoch=0, offset=5)
        assert found is not None
        assert found.segment_id == each.segment_id
        assert [listed.segment_id for listed in tiergate.metadata.list_segments(each.partition)] == [each.segment_id]


def test_assignment_of_user_partitions_hosts_those_that_hold_their_events(tiergate: Tiergate) -> None:
    topic_id = TopicId.random()
    homes = {metadata_partition_of(topic_id, number, partition_count=len(EVERYTHING)) for number in (0, 1)}
    wanted = tuple(sorted({7, *homes}))
    assert (
        tiergate.admin.set_assignment(metadata_partitions=[7, 7], user_partitions=[(topic_id, 0), (topic_id, 1)])
        == hosted(tiergate)
        == wanted
    )


@pytest.mark.parametrize("number", [-1, 50, 2**31 - 1, 2**40])
def test_assignment_of_a_partition_that_does_not_exist_is_refused_and_changes_nothing(
    planes: Planes, number: int
) -> None:
    with connect(planes.target) as tiergate:
        before = hosted(tiergate)
        with pytest.raises(InvalidField):
            tiergate.admin.set_assignment(metadata_partitions=[0, number])
        if number != 50:
            with pytest.raises(InvalidField):
                tiergate.admin.set_assignment(user_partitions=[(TopicId.random(), -1 if number < 0 else 2**31)])
        assert hosted(tiergate) == before


def test_snapshot_is_a_file_that_a_restart_begins_with(tiergate: Tiergate, own_planes: Planes, tmp_path: Path) -> None:
    before = [finished_segment(tiergate) for _ in range(10)]
    taken = tiergate.admin.take_snapshot()
    (file,) = (path for path in (tmp_path / "data" / "snapshots").rglob("*") if path.is_file())
    assert file.stat().st_size == taken.size_bytes
    assert Path(taken.location) == file
    after = [finished_segment(tiergate) for _ in range(3)]
    assert events_applied(own_planes) == 26
    own_planes.metadata.kill()
    own_planes.metadata.start()
    for segment in (*before, *after):
        found = tiergate.metadata.find_segment(segment.partition, leader_epoch=0, offset=5)
        assert found is not None
        assert found.segment_id == segment.segment_id
    assert events_applied(own_planes) == 6  # what came after the snapshot


def test_snapshot_is_not_offered_when_there_is_no_place_for_one(tmp_path: Path) -> None:
    with (
        running_planes(tmp_path, metadata__snapshot__directory="") as planes,
        connect(planes.target) as tiergate,
        pytest.raises(NotOffered, match=r"metadata\.snapshot\.directory"),
    ):
        tiergate.admin.take_snapshot()


def test_errors_are_those_of_the_other_calls_when_nobody_is_there() -> None:
    with (
        connect("127.0.0.1:1", timeout_s=2) as tiergate,
        pytest.raises(Unavailable, match=r"cannot connect to 127\.0\.0\.1:1 "),
    ):
        tiergate.admin.get_assignment()
