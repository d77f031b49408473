"""Records over the wire: the same as decoded here, in any portion, and over planes that are killed in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.in_process_records import InProcessRecords, records_of
from support.made_segments import tier_batches
from support.planes import Planes, running_planes
from support.record_batches import MadeBatch, MadeRecord
from support.tiering import tier_segments
from support.wire import channel_to
from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc
from tiergate_client import Record, Tiergate, TopicId, TopicIdPartition, connect
from tiergate_client.conversions import token_from_proto
from tiergate_client.record_conversions import split_from_bytes
from tiergate_client.records import decode_batches
from tiergate_server.kafka_files.sample import write_sample

MIB = 1024 * 1024
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(tmp_path_factory.mktemp("records")) as running:
        yield running


@pytest.fixture(scope="module")
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as connected:
        yield connected


@pytest.fixture(scope="module")
def orders(tiergate: Tiergate, tmp_path_factory: pytest.TempPathFactory) -> TopicIdPartition:
    """The sample: every codec, transactions that were committed and aborted, headers and tombstones."""
    sample = write_sample(tmp_path_factory.mktemp("sample"), segments=3, segment_bytes=64 * 1024)
    tier_segments(tiergate, sample.directory)
    return sample.partition


@pytest.fixture(scope="module")
def expected(tiergate: Tiergate, orders: TopicIdPartition) -> dict[str, list[Record]]:
    local = InProcessRecords(tiergate.metadata, tiergate.storage)
    decoded = {}
    for isolation in ISOLATION_LEVELS:
        with local.read_records("orders", 0, topic_id=orders.topic_id, isolation=isolation) as stream:
            decoded[isolation] = list(stream)
    assert len(decoded["read_uncommitted"]) > len(decoded["read_committed"]) > 100
    return decoded


def wire(tiergate: Tiergate, **options: Any) -> list[Record]:
    with tiergate.records.read_records("orders", 0, **options) as stream:
        return list(stream)


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_records_over_the_wire_are_those_that_are_decoded_here(
    tiergate: Tiergate, expected: dict[str, list[Record]], isolation: str
) -> None:
    with tiergate.records.read_records("orders", 0, isolation=isolation) as stream:
        assert list(stream) == expected[isolation]
        assert stream.next_offset == stream.stop_offset > expected[isolation][-1].offset
        assert str(stream.partition.topic) == "orders"


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
@pytest.mark.parametrize("split_bytes", [1, 20_000, None])
def test_splits_together_hold_every_record_once(
    tiergate: Tiergate, expected: dict[str, list[Record]], isolation: str, split_bytes: int | None
) -> None:
    plan = tiergate.records.plan_read("orders", 0, isolation=isolation, split_bytes=split_bytes)
    assert (len(plan.splits) == 1) == (split_bytes is None)
    records: list[Record] = []
    for split in plan.splits:
        with tiergate.records.read_split(split) as stream:
            read = list(stream)
        assert read == list(records_of(split_from_bytes(split.content), tiergate.storage))
        assert all(split.start_offset <= record.offset < split.stop_offset for record in read)
        records += read
    assert records == expected[isolation]


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_split_that_is_resumed_gives_its_rest(
    planes: Planes, tiergate: Tiergate, expected: dict[str, list[Record]], isolation: str
) -> None:
    (split,) = tiergate.records.plan_read("orders", 0, isolation=isolation).splits
    offsets = [record.offset for record in expected[isolation]]
    with channel_to(planes.segments.address) as channel:
        stub = records_pb2_grpc.RecordServiceStub(channel)
        for start_offset in (*offsets[:: len(offsets) // 20], offsets[-1] + 1):
            request = pb.ReadRecordsRequest(split=pb.ReadSplit.FromString(split.content), start_offset=start_offset)
            messages = list(stub.ReadRecords(request, timeout=20))
            read = [record.offset for message in messages for record in message.records]
            assert read == [offset for offset in offsets if offset >= start_offset]
            assert messages[-1].next_offset == split.stop_offset


@pytest.mark.parametrize("most", [500, 100])  # whole segments, and parts of them
def test_number_of_offsets_in_a_split_is_bounded(tiergate: Tiergate, orders: TopicIdPartition, most: int) -> None:
    few = tiergate.records.plan_read("orders", 0, split_records=most)
    many = tiergate.records.plan_read("orders", 0)
    assert len(few.splits) > len(many.splits)
    assert all(0 < split.stop_offset - split.start_offset <= most for split in few.splits)
    assert (few.start_offset, few.stop_offset) == (many.start_offset, many.stop_offset)


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_read_in_portions_goes_on_where_the_last_one_ended(
    tiergate: Tiergate, expected: dict[str, list[Record]], isolation: str
) -> None:
    records: list[Record] = []
    start_offset, stop_offset = 0, 1
    while start_offset < stop_offset:
        with tiergate.records.read_records(
            "orders", 0, start_offset=start_offset, isolation=isolation, max_records=97
        ) as stream:
            portion = list(stream)
            start_offset, stop_offset = stream.next_offset, stream.stop_offset
        assert len(portion) == 97 or start_offset == stop_offset
        records += portion
    assert records == expected[isolation]


def test_bytes_of_a_read_are_bounded(tiergate: Tiergate, expected: dict[str, list[Record]]) -> None:
    records = expected["read_uncommitted"]
    for max_bytes in (1, 1000, 60_000):
        read = wire(tiergate, max_bytes=max_bytes)
        assert read == records[: len(read)]
        sizes = [record.size_bytes for record in read]
        assert sum(sizes[:-1]) < max_bytes <= sum(sizes)


def test_only_the_columns_that_are_wanted_are_sent(tiergate: Tiergate, expected: dict[str, list[Record]]) -> None:
    bare = [record._replace(value=None, headers=()) for record in expected["read_uncommitted"]]
    assert wire(tiergate, columns=["key"]) == bare
    assert any(record.headers for record in wire(tiergate, columns=["headers"]))


def test_times_bound_a_read_as_they_are_found(tiergate: Tiergate, expected: dict[str, list[Record]]) -> None:
    records = expected["read_uncommitted"]
    for number in (0, 10, len(records) // 2):
        time_ms = records[number].timestamp_ms
        found = tiergate.records.find_offset_by_time("orders", 0, time_ms)
        first = next(record for record in records if record.timestamp_ms >= time_ms)
        assert found is not None
        assert (found.offset, found.timestamp_ms) <= (first.offset, first.timestamp_ms), "markers have times, too"
        assert wire(tiergate, start_time_ms=time_ms) == [one for one in records if one.offset >= found.offset]
        assert wire(tiergate, stop_time_ms=time_ms) == [one for one in records if one.offset < found.offset]
    late = max(record.timestamp_ms for record in records) + 10**9
    assert tiergate.records.find_offset_by_time("orders", 0, late) is None
    assert wire(tiergate, start_time_ms=late) == []
    assert wire(tiergate, stop_time_ms=late) == records


def test_log_start_hides_what_is_older(tiergate: Tiergate, expected: dict[str, list[Record]]) -> None:
    records = expected["read_uncommitted"]
    middle = records[len(records) // 2].offset
    assert wire(tiergate, log_start_offset=middle) == [one for one in records if one.offset >= middle]
    found = tiergate.records.find_offset_by_time("orders", 0, 0, log_start_offset=middle)
    assert found is not None
    assert found.offset >= middle


def test_partition_of_which_nothing_is_known_reads_as_empty(tiergate: Tiergate, orders: TopicIdPartition) -> None:
    with tiergate.records.read_records("orders", 99) as stream:
        assert list(stream) == []
    plan = tiergate.records.plan_read("orders", 99)
    assert (plan.splits, plan.start_offset, plan.stop_offset) == ((), 0, 0)
    assert tiergate.records.find_offset_by_time("orders", 99, 0) is None


def test_raw_batches_are_the_bytes_of_the_log(tiergate: Tiergate, orders: TopicIdPartition) -> None:
    logs = b""
    for segment in tiergate.metadata.list_segments(orders):
        with tiergate.storage.fetch_segment(segment) as log:
            logs += log.read()
    with tiergate.records.read_raw_batches("orders", 0) as raw:
        assert b"".join(raw) == logs
        assert raw.aborted == ()
    with tiergate.records.read_raw_batches("orders", 0, isolation="read_committed") as committed:
        read = b"".join(committed)
        assert read
        assert logs.startswith(read)
        assert committed.aborted
    some = tiergate.records.read_raw_batches("orders", 0, start_offset=50, max_bytes=1)
    (batch,) = some
    assert some.next_offset > 50
    assert 50 in [offset for one in decode_batches(batch) for offset in one["offset"].to_pylist()]


def test_token_goes_to_the_metadata_and_comes_back_merged(planes: Planes, orders: TopicIdPartition) -> None:
    with connect(planes.target) as writer, connect(planes.target) as reader:
        writer.records.plan_read("orders", 0)
        seen = writer.metadata_since(None, timeout_s=20)
        list(seen.metadata.list_segments(orders))
        assert seen.token is not None
        stub = records_pb2_grpc.RecordServiceStub(reader._channels.to(planes.segments.address))
        other = dict.fromkeys(range(50), -1)  # what the caller knows of other partitions stays in its token
        token = pb.ReadRecordsRequest().token
        token.log_id = seen.token.log_id.raw
        token.applied_offsets.update({**other, **seen.token.applied_offsets})
        request = pb.ReadRecordsRequest(token=token, partition=pb.RecordPartition(topic="orders"), max_records=1)
        first = next(iter(stub.ReadRecords(request, timeout=20)))
    answered = token_from_proto(first.token)
    assert answered.log_id == seen.token.log_id
    assert set(answered.applied_offsets) == set(token.applied_offsets)
    for partition, offset in seen.token.applied_offsets.items():
        assert answered.applied_offsets[partition] >= offset


def test_read_goes_on_where_it_was_after_the_plane_was_killed(tmp_path: Path) -> None:
    batches = [
        MadeBatch(
            tuple(MadeRecord(number, key=b"%d" % number, value=bytes([at]) * 20_000) for number in range(25)),
            base_offset=25 * at,
        )
        for at in range(100)
    ]
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        topic_id = TopicId.random()
        for begin in (0, 50):
            some = batches[begin : begin + 50]
            tier_batches(tiergate, some, topic="orders", topic_id=topic_id, end_offset=some[-1].base_offset + 24)
        (split,) = tiergate.records.plan_read("orders", 0, split_bytes=2**40).splits
        for read in (tiergate.records.read_records("orders", 0), tiergate.records.read_split(split)):
            offsets, kills = [], 0
            with read as stream:
                for record in stream:
                    offsets.append(record.offset)
                    if record.offset == 300:
                        planes.segments.kill()
                        planes.segments.start()
                        kills += 1
            assert kills == 1
            assert offsets == list(range(2500)), "none lost, none given twice"
        received = bytearray()
        with tiergate.records.read_raw_batches("orders", 0) as raw:
            for number, run in enumerate(raw):
                received += run
                if number == 2:
                    planes.segments.kill()
                    planes.segments.start()
        assert bytes(received) == b"".join(batch.encode() for batch in batches)


_WITHOUT_THE_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow", "numba"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Missing())
from tiergate_client import connect

with connect(sys.argv[1]) as tiergate:
    (split, *_) = tiergate.records.plan_read("orders", 0).splits
    with tiergate.records.read_split(split) as stream:
        print(sum(1 for _ in stream))
    print(tiergate.records.find_offset_by_time("orders", 0, 0).offset)
"""


def test_records_are_read_without_the_extra(
    planes: Planes, tiergate: Tiergate, expected: dict[str, list[Record]]
) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _WITHOUT_THE_EXTRA, planes.target], check=True, capture_output=True, text=True
    )
    assert answer.stdout.split() == [str(len(expected["read_uncommitted"])), "0"]
