"""What a read is planned to be: which partitions, offsets and bytes, from options and filters; Spark is not needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.planes import Planes, running_planes
from support.segments import make_metadata
from support.tiering import tier_segments
from tiergate_client import Tiergate, connect
from tiergate_client.errors import InvalidField, OffsetOutOfRange, TopicNotFound
from tiergate_client.ids import TopicId
from tiergate_client.record_conversions import split_from_bytes
from tiergate_client.records.read_split import ReadSplit
from tiergate_server.kafka_files.sample import SamplePartition, write_sample
from tiergate_spark.bounds import Bounds, Interval
from tiergate_spark.options import parse_options
from tiergate_spark.partitions import selected_partitions
from tiergate_spark.planning import plan_batch
from tiergate_spark.schema import columns_of, source_schema

COLUMNS = columns_of(source_schema(include_headers=False))
FIRST_ID, SECOND_ID, OTHER_ID = sorted((TopicId(bytes([number]) * 16) for number in (1, 2, 3)), key=str)
STOP = 19_640
"""Behind the last rolled segment of the sample."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SamplePartition:
    return write_sample(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory, sample: SamplePartition) -> Iterator[Planes]:
    """With the sample, and with topics of which there is metadata only."""
    with running_planes(tmp_path_factory.mktemp("planes")) as running, connect(running.target) as tiergate:
        tier_segments(tiergate, sample.directory)
        for topic, topic_id, partition in (
            ("twice", FIRST_ID, 0),
            ("twice", SECOND_ID, 0),
            ("twice", SECOND_ID, 1),
            ("once.more", OTHER_ID, 2),
        ):
            announced = make_metadata(topic=topic, topic_id=topic_id, partition=partition)
            tiergate.metadata.add_segment(announced)
        yield running


@pytest.fixture
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as connected:
        yield connected


@pytest.fixture
def target(planes: Planes) -> str:
    return planes.target


def selected(tiergate: Tiergate, **given: str) -> list[tuple[str, int, TopicId]]:
    found = selected_partitions(tiergate.metadata, parse_options({"target": "unused:1", **given}))
    return [(topic, number, partition.topic_id) for (topic, number), partition in found.items()]


def splits(target: str, bounds: Bounds | None = None, /, **given: str) -> list[ReadSplit]:
    options = parse_options({"target": target, "subscribe": "orders", **given})
    return [split_from_bytes(one.split) for one in plan_batch(options, COLUMNS, bounds=bounds or Bounds())]


def offsets(read: list[ReadSplit]) -> list[tuple[int, int]]:
    return [(split.start_offset, split.stop_offset) for split in read]


def refusal(target: str, kind: type[Exception] = InvalidField, **given: str) -> str:
    with pytest.raises(kind) as caught:
        splits(target, **given)
    return str(caught.value)


def test_topics_are_found_by_name_by_pattern_and_by_partition(tiergate: Tiergate, sample: SamplePartition) -> None:
    topic_id = sample.partition.topic_id
    assert selected(tiergate, subscribe="once.more,orders") == [("once.more", 2, OTHER_ID), ("orders", 0, topic_id)]
    assert selected(tiergate, subscribePattern="o.*") == [("once.more", 2, OTHER_ID), ("orders", 0, topic_id)]
    assert selected(tiergate, subscribePattern="order") == []
    assert selected(tiergate, assign='{"orders":[0]}') == [("orders", 0, topic_id)]


def test_name_that_the_tier_does_not_know_is_an_error(tiergate: Tiergate) -> None:
    with pytest.raises(
        TopicNotFound, match="knows no topic 'order'; did you mean 'orders'\\? `tiergate ls` lists what is there"
    ):
        selected(tiergate, subscribe="orders,order")


def test_name_with_two_ids_is_an_error_that_lists_both(tiergate: Tiergate) -> None:
    with pytest.raises(InvalidField) as caught:
        selected(tiergate, subscribe="twice")
    assert caught.value.message == (
        f"topicId: the tier knows 'twice' under {FIRST_ID} and {SECOND_ID}; choose one of them"
    )


def test_id_chooses_among_topics_of_one_name(tiergate: Tiergate) -> None:
    assert selected(tiergate, subscribe="twice", topicId=str(FIRST_ID)) == [("twice", 0, FIRST_ID)]
    by_topic = f'{{"twice":"{SECOND_ID}"}}'
    expected = [("once.more", 2, OTHER_ID), ("twice", 0, SECOND_ID), ("twice", 1, SECOND_ID)]
    assert selected(tiergate, subscribe="twice,once.more", topicId=by_topic) == expected
    assert selected(tiergate, subscribe="twice,once.more", topicId=str(SECOND_ID)) == expected


@pytest.mark.parametrize("given", [str(OTHER_ID), f'{{"twice":"{OTHER_ID}"}}', f'{{"orders":"{FIRST_ID}"}}'])
def test_id_that_no_topic_of_the_read_has_is_an_error(tiergate: Tiergate, given: str) -> None:
    with pytest.raises(InvalidField, match="topicId: "):
        selected(tiergate, subscribe="twice", topicId=given)


def test_assigned_partition_without_anything_tiered_is_empty(
    tiergate: Tiergate, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        assert len(selected(tiergate, assign='{"orders":[0,7,3]}')) == 1
    assert caplog.messages == ["nothing of orders-3, orders-7 is tiered: it is read as empty"]


def test_pattern_that_no_topic_matches_is_empty_with_a_warning(
    tiergate: Tiergate, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        assert selected(tiergate, subscribePattern="order") == []
        assert len(selected(tiergate, subscribePattern="order.")) == 1
    assert caplog.messages == ["no topic in the tier matches the subscribePattern 'order': it is read as empty"]


def test_offset_of_a_topic_without_finished_segments_is_refused_for_that(target: str) -> None:
    asked = {"subscribe": "once.more", "startingOffsets": '{"once.more":{"2":5}}'}
    assert refusal(target, OffsetOutOfRange, **asked).startswith("nothing of once.more-2 (")


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({"subscribe": "orders"}, {"startingOffsets": '{"orders":{"0":-2,"1":-2,"2":0}}'}),
        ({"subscribePattern": "orde.*"}, {"endingOffsets": '{"orders":{"0":-1,"1":-1,"2":0}}'}),
        ({"assign": '{"orders":[0,1,2]}'}, {"endingOffsets": '{"orders":{"0":-1,"1":0,"2":-1}}'}),
        ({"subscribe": "orders"}, {"startingOffsetsByTimestamp": '{"orders":{"0":0,"1":5,"2":5}}'}),
    ],
)
def test_partition_without_anything_tiered_may_be_named_by_limits(
    target: str, caplog: pytest.LogCaptureFixture, asked: dict[str, str], limits: dict[str, str]
) -> None:
    options = parse_options({"target": target, **asked, **limits})
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        (task,) = plan_batch(options, COLUMNS, bounds=Bounds())
    split = split_from_bytes(task.split)
    assert (split.start_offset, split.stop_offset) == (0, STOP)
    assert caplog.messages == ["nothing of orders-1, orders-2 is tiered: it is read as empty"]


def test_offset_of_a_partition_without_anything_tiered_is_an_error_unless_loss_is_accepted(target: str) -> None:
    starting = {"startingOffsets": '{"orders":{"0":1,"1":5}}'}
    assert refusal(target, InvalidField, **starting).startswith(
        "startingOffsets: nothing of orders-1 is tiered, so that no offset"
    )
    ending = {"endingOffsets": '{"orders":{"0":1,"1":5}}'}
    assert refusal(target, InvalidField, **ending).startswith(
        "endingOffsets: nothing of orders-1 is tiered, so that no offset"
    )
    assert offsets(splits(target, **starting, failOnDataLoss="false")) == [(1, STOP)]


def test_whole_topic_is_one_split_up_to_its_size(target: str) -> None:
    assert offsets(splits(target)) == [(0, STOP)]


def test_splits_are_cut_by_bytes_also_inside_a_segment(target: str) -> None:
    read = splits(target, splitBytes="300k")
    assert len(read) >= 4 * 3
    assert [split.start_offset for split in read[1:]] == [split.stop_offset for split in read[:-1]]
    assert (read[0].start_offset, read[-1].stop_offset) == (0, STOP)
    assert max(split.size_bytes for split in read) < 320 << 10


def test_splits_are_cut_by_records(target: str) -> None:
    assert max(stop - start for start, stop in offsets(splits(target, maxRecordsPerPartition="500"))) <= 500


def test_least_number_of_splits_is_about_reached(target: str) -> None:
    assert 6 <= len(splits(target, minPartitions="6")) <= 12
    assert len(splits(target, minPartitions="1")) == 1


def test_given_offsets_are_read_and_no_others(target: str) -> None:
    read = splits(target, startingOffsets='{"orders":{"0":4000}}', endingOffsets='{"orders":{"0":6000}}')
    assert offsets(read) == [(4000, 6000)]
    assert splits(target, startingOffsets='{"orders":{"0":5}}', endingOffsets='{"orders":{"0":5}}') == []


def test_log_start_hides_what_is_before_it(target: str) -> None:
    assert offsets(splits(target, logStartOffset="100")) == [(100, STOP)]
    assert offsets(splits(target, logStartOffset='{"orders":{"0":100},"others":{"0":7}}')) == [(100, STOP)]
    assert offsets(splits(target, logStartOffset='{"orders":{"1":100}}')) == [(0, STOP)]


def test_offsets_outside_of_the_tier_are_an_error_or_skipped(target: str, caplog: pytest.LogCaptureFixture) -> None:
    beyond = {"endingOffsets": '{"orders":{"0":30000}}'}
    told = refusal(target, OffsetOutOfRange, **beyond)
    assert "30000" in told
    assert told.endswith("accept the loss of data (failOnDataLoss=false)")
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        assert offsets(splits(target, **beyond, failOnDataLoss="false")) == [(0, STOP)]
    (message,) = caplog.messages
    skipped = 30_000 - STOP
    assert message.startswith(f"{skipped} offsets are not in the tier and skipped: {STOP} to 29999 of orders-0 (")


def test_loss_within_a_filter_is_counted_and_an_error_where_it_is_not_accepted(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = parse_options({"target": target, "subscribe": "orders", "endingOffsets": '{"orders":{"0":30000}}'})
    late, early = Bounds(offsets=Interval(19_000, 20_000)), Bounds(offsets=Interval(5, 9))
    with pytest.raises(OffsetOutOfRange, match=r"not at 30000: .*\(failOnDataLoss=false\)"):
        plan_batch(beyond, COLUMNS, bounds=early)
    accepting = replace(beyond, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        assert len(plan_batch(accepting, COLUMNS, bounds=early)) == 1
        assert caplog.messages == []
        assert len(plan_batch(accepting, COLUMNS, bounds=late)) == 1
    (message,) = caplog.messages
    assert message.startswith(f"{20_000 - STOP} offsets are not in the tier and skipped: {STOP} to 19999 of orders-0")


def test_limits_must_name_every_partition_and_no_other(target: str) -> None:
    assert refusal(target, startingOffsets="{}", failOnDataLoss="false") == (
        "startingOffsets: it must name every partition that is read, but orders-0 is missing; -2 is earliest, -1 latest"
    )
    assert refusal(target, endingOffsetsByTimestamp='{"orders":{"1":1}}') == (
        "endingOffsetsByTimestamp: it must name every partition that is read, but orders-0 is missing, and nothing of "
        "orders-1 is tiered; -2 is earliest, -1 latest"
    )
    assert refusal(target, startingOffsets='{"orders":{"0":1},"once.more":{"2":-2}}') == (
        "startingOffsets: it names once.more-2, which is not among the partitions of this read; leave it out"
    )


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Bounds(offsets=Interval(4000, 6000)), [(4000, 6000)]),
        (Bounds(offsets=Interval(15_000, None)), [(15_000, STOP)]),
        (Bounds(offsets=Interval(None, 50_000)), [(0, STOP)]),
        (Bounds(offsets=Interval(-5, 3)), [(0, 3)]),
        (Bounds(offsets=Interval(50_000, None)), []),
        (Bounds(offsets=Interval(9, 9)), []),
        (Bounds(topics=frozenset({"others"})), []),
        (Bounds(topics=frozenset({"orders"})), [(0, STOP)]),
        (Bounds(partitions=Interval(1, None)), []),
        (Bounds(partition_numbers=frozenset({0, 3})), [(0, STOP)]),
    ],
)
def test_filters_on_places_read_no_more_than_they_let_through(
    target: str, bounds: Bounds, expected: list[tuple[int, int]]
) -> None:
    assert offsets(splits(target, bounds)) == expected


@pytest.mark.parametrize("how", ["filter", "option"])
def test_lower_bound_of_time_reads_fewer_segments_and_bytes(target: str, tiergate: Tiergate, how: str) -> None:
    (whole,) = splits(target)
    third = whole.ranges[2].segment
    least = third.max_timestamp_ms
    asked: dict[str, str] = {"minTimestamp": str(least)} if how == "option" else {}
    read = splits(target, Bounds(min_timestamp_ms=None if asked else least), **asked)
    assert [one.segment.segment_id for split in read for one in split.ranges] == [
        one.segment.segment_id for one in whole.ranges[2:]
    ]
    assert sum(split.size_bytes for split in read) < sum(one.size_bytes for one in whole.ranges[2:])


def test_executors_are_told_where_the_segment_plane_is(target: str, planes: Planes) -> None:
    options = {"target": target, "subscribe": "orders"}
    (learned,) = plan_batch(parse_options(options), COLUMNS, bounds=Bounds())
    assert learned.service.segments == planes.segments.address
    given = {**options, "segments": planes.segments.address, "access": "service", "minTimestamp": "5"}
    (task,) = plan_batch(parse_options(given), COLUMNS, bounds=Bounds())
    assert (task.service.segments, task.service.access) == (planes.segments.address, "service")
    assert (task.columns, task.min_timestamp_ms) == (COLUMNS, 5)
