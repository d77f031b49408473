"""A stream's side on the driver, against real planes: what each micro-batch holds, also after a restart, without Spark.

The segments of a sample topic are tiered bit by bit; in its middle transactions are open for more than a segment.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.planes import Planes
from support.tiering import tier_segments
from tiergate_client import Tiergate, connect
from tiergate_client.clock import system_clock
from tiergate_client.errors import InvalidField, OffsetOutOfRange
from tiergate_client.segment_lifecycle import delete_segment
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.bounds import Bounds
from tiergate_spark.input_split import InputSplit
from tiergate_spark.offsets import PartitionNumbers, offsets_json
from tiergate_spark.options import SourceOptions, parse_options
from tiergate_spark.planning import plan_batch
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.stream_driver import StreamDriver
from tiergate_spark.tier_watch import TierWatch
from tiergate_spark.worker import read_input_split

COLUMNS = columns_of(source_schema(include_headers=True))
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
SEGMENTS = 6
IN_TRANSACTIONS = 3
"""So many segments end within transactions, one of which is aborted later."""

_numbers = count()


class GrowingTopic:
    """A topic that is tiered segment by segment."""

    def __init__(self, client: Tiergate, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self.name = f"growing-{next(_numbers)}"
        self.segments: list[RemoteLogSegmentMetadata] = []
        write_sample(directory, topic=self.name, segments=SEGMENTS, segment_bytes=16 * 1024)

    @property
    def stop_offset(self) -> int:
        return self.segments[-1].end_offset + 1

    def tier(self, segments: int) -> None:
        first = self.stop_offset if self.segments else 0
        self.segments += tier_segments(self._client, self._path(0), first=first, limit=segments)

    def tier_second_partition(self, *, first: int = 0) -> list[RemoteLogSegmentMetadata]:
        """A copy of the first one."""
        shutil.copytree(self._path(0), self._path(1))
        return tier_segments(self._client, self._path(1), first=first)

    def delete(self, segments: list[RemoteLogSegmentMetadata]) -> None:
        for segment in segments:
            delete_segment(self._client, segment, clock=system_clock)

    def _path(self, partition: int) -> Path:
        return self._directory / f"{self.name}-{partition}"


Rows = list[tuple[Any, ...]]


class Query:
    """Does with a driver what Spark does with a checkpoint; it can be left at any point, and another goes on."""

    def __init__(self, options: SourceOptions, checkpoint: list[PartitionNumbers]) -> None:
        self._driver = StreamDriver(options, COLUMNS)
        self._limit = options.max_offsets_per_trigger
        self.checkpoint = checkpoint

    def batch(self) -> Rows | None:
        """None when there is nothing new."""
        start = self.checkpoint[-1] if self.checkpoint else self._driver.start()
        stops = self._driver.stops(start, limit=self._limit)
        if self.checkpoint and stops == start:
            return None
        self.checkpoint.append(stops)
        return rows_of(self._driver.plan(start, stops))

    def batches(self) -> list[Rows]:
        found = []
        while (rows := self.batch()) is not None:
            found.append(rows)
        return found

    def last_batch_again(self) -> Rows:
        """After a crash before the batch was finished."""
        start = self.checkpoint[-2] if len(self.checkpoint) > 1 else self._driver.start()
        return rows_of(self._driver.plan(start, self.checkpoint[-1]))

    def start(self) -> PartitionNumbers:
        return self._driver.start()

    def freeze(self) -> None:
        self._driver.freeze()

    def close(self) -> None:
        self._driver.close()


def rows_of(splits: list[InputSplit]) -> Rows:
    rows = [tuple(row.values()) for split in splits for batch in read_input_split(split) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row[2:5])


def joined(batches: list[Rows]) -> Rows:
    return sorted((row for rows in batches for row in rows), key=lambda row: row[2:5])


@pytest.fixture(scope="module")
def client(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as connected:
        yield connected


@pytest.fixture
def topic(client: Tiergate, tmp_path: Path) -> GrowingTopic:
    return GrowingTopic(client, tmp_path)


@pytest.fixture
def options(planes: Planes, topic: GrowingTopic) -> Callable[..., SourceOptions]:
    def made(**given: str) -> SourceOptions:
        named = {"isolation": "kafka.isolation.level"}
        asked = {"target": planes.target, "subscribe": topic.name, "startingOffsets": "earliest"}
        asked |= {named.get(name, name): text for name, text in given.items()}
        if {"subscribePattern", "assign"} & asked.keys():
            del asked["subscribe"]
        return parse_options(asked)

    return made


@pytest.fixture
def query(options: Callable[..., SourceOptions]) -> Iterator[Callable[..., Query]]:
    """A new one, or one that goes on from another's checkpoint."""
    with ExitStack() as stack:

        def made(checkpoint: list[PartitionNumbers] | None = None, **given: str) -> Query:
            running = Query(options(**given), [] if checkpoint is None else checkpoint)
            stack.callback(running.close)
            return running

        yield made


@pytest.fixture
def all_rows(options: Callable[..., SourceOptions]) -> Callable[..., Rows]:
    """What a batch read gives."""

    def read(**given: str) -> Rows:
        return rows_of(plan_batch(options(**given), COLUMNS, bounds=Bounds()))

    return read


MakeQuery = Callable[..., Query]
ReadAll = Callable[..., Rows]


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_batches_over_a_growing_tier_are_one_batch_read(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll, isolation: str
) -> None:
    topic.tier(2)
    running = query(isolation=isolation, maxOffsetsPerTrigger="50")
    batches = running.batches()
    while len(topic.segments) < SEGMENTS:
        topic.tier(1)
        batches += running.batches()
    assert len(batches) > SEGMENTS
    assert joined(batches) == all_rows(isolation=isolation)
    assert max(map(len, batches)) <= 50


def test_undecided_records_come_when_they_are_decided(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(IN_TRANSACTIONS)
    committed, uncommitted = query(isolation="read_committed"), query()
    assert len(joined(committed.batches())) < len(joined(uncommitted.batches()))
    (stable,) = committed.checkpoint[-1].values()
    assert stable < topic.stop_offset
    topic.tier(SEGMENTS)
    assert joined(committed.batches())[0][4] >= stable
    assert committed.checkpoint[-1] == {(topic.name, 0): topic.stop_offset}


@pytest.mark.parametrize("isolation", ISOLATION_LEVELS)
def test_batch_that_is_repeated_after_a_crash_has_the_same_rows(
    topic: GrowingTopic, query: MakeQuery, isolation: str
) -> None:
    topic.tier(IN_TRANSACTIONS)
    settings = {"isolation": isolation, "maxOffsetsPerTrigger": "60"}
    checkpoint: list[PartitionNumbers] = []
    while (rows := query(checkpoint, **settings).batch()) is not None:
        if len(checkpoint) == IN_TRANSACTIONS:
            topic.tier(SEGMENTS)
        assert query(checkpoint, **settings).last_batch_again() == rows
    assert checkpoint[-1] == {(topic.name, 0): topic.stop_offset}
    assert len(checkpoint) > SEGMENTS


@pytest.mark.parametrize("is_frozen", [False, True])
def test_replica_that_is_behind_the_last_run_is_asked_again(
    topic: GrowingTopic,
    query: MakeQuery,
    client: Tiergate,
    options: Callable[..., SourceOptions],
    monkeypatch: pytest.MonkeyPatch,
    is_frozen: bool,
) -> None:
    topic.tier(1)
    look_now, behind = TierWatch.look, TierWatch(client, options()).look()
    topic.tier(1)
    first_run = query()
    rows = first_run.batches()
    looks: list[int] = []

    def look(watch: TierWatch) -> object:
        looks.append(len(looks))
        return behind if len(looks) <= 3 else look_now(watch)

    monkeypatch.setattr(TierWatch, "look", look)
    second_run = query(first_run.checkpoint)
    if is_frozen:
        second_run.freeze()
    assert second_run.batches() == []
    assert len(looks) > 3
    looks.clear()
    assert query(first_run.checkpoint).last_batch_again() == rows[-1]
    assert len(looks) > 3
    assert first_run.checkpoint[-1] == {(topic.name, 0): topic.stop_offset}


def test_query_that_starts_at_latest_loses_nothing_by_a_crash_in_its_first_batch(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(1)
    first_run = query(startingOffsets="latest")
    stop = topic.stop_offset
    assert first_run.batch() == []
    topic.tier(2)
    assert query(first_run.checkpoint, startingOffsets="latest").last_batch_again() == []
    later = joined(query(first_run.checkpoint, startingOffsets="latest").batches())
    assert later == [row for row in all_rows() if row[4] >= stop]


def test_rows_that_come_before_the_first_batch_wait_for_the_second(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(1)
    running = query(startingOffsets="latest")
    start = running.start()
    topic.tier(1)
    assert running.batch() == []
    assert running.checkpoint == [start]
    assert running.batch()


def test_partition_that_comes_later_is_read_from_its_beginning(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(3)
    running = query(startingOffsets="latest")
    assert running.batches() == [[]]
    second = topic.tier_second_partition(first=topic.segments[1].start_offset)
    assert running.batch() == []
    assert running.checkpoint[-1][topic.name, 1] == second[0].start_offset > 0
    assert query(running.checkpoint).last_batch_again() == []
    assert joined(running.batches()) == [row for row in all_rows() if row[3] == 1]


def test_topic_that_comes_later_is_read_from_its_beginning(
    client: Tiergate, topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll, tmp_path: Path
) -> None:
    topic.tier(1)
    other = GrowingTopic(client, tmp_path)
    asked = {"subscribePattern": f"{topic.name}|{other.name}"}
    running = query(**asked)
    before = running.batches()
    other.tier(2)
    assert joined(before + running.batches()) == all_rows(**asked)
    assert {row[2] for row in all_rows(**asked)} == {topic.name, other.name}


def test_frozen_query_ends_at_what_there_was(topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll) -> None:
    topic.tier(2)
    expected = all_rows()
    running = query(maxOffsetsPerTrigger="70")
    running.freeze()
    begun = [running.batch() or []]
    topic.tier(1)
    topic.tier_second_partition()
    assert joined(begun + running.batches()) == expected
    assert len(running.checkpoint) == 3


def test_frozen_query_reads_a_partition_that_its_checkpoint_does_not_know(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(2)
    earlier = query()
    before = earlier.batches()
    topic.tier_second_partition()
    running = query(earlier.checkpoint)
    running.freeze()
    assert joined(before + running.batches()) == all_rows()


def test_deleted_range_fails_or_is_left_out(topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll) -> None:
    topic.tier(4)
    first = topic.segments[0]
    running = query(maxOffsetsPerTrigger=str(first.end_offset + 1))
    assert running.batch()
    topic.delete(topic.segments[:3])
    with pytest.raises(OffsetOutOfRange, match=rf"{topic.name}-0 .* can be read from offset"):
        running.batch()
    left = all_rows()
    with pytest.raises(OffsetOutOfRange):
        query(running.checkpoint).last_batch_again()
    accepting = query(running.checkpoint, failOnDataLoss="false")
    assert joined([accepting.last_batch_again(), *accepting.batches()]) == left


def test_partition_of_which_everything_was_read_and_deleted_goes_on(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(2)
    running = query()
    running.batches()
    topic.delete(topic.segments)
    assert running.batch() is None
    topic.tier(1)
    assert joined(running.batches())[0][4] == topic.segments[2].start_offset


def test_start_outside_of_the_tier_fails_or_is_moved(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(1)
    starting = offsets_json({(topic.name, 0): topic.stop_offset + 5})
    with pytest.raises(OffsetOutOfRange, match=f"up to {topic.stop_offset}, not at the starting"):
        query(startingOffsets=starting).batch()
    moved = query(startingOffsets=starting, failOnDataLoss="false")
    assert moved.batch() == []
    assert moved.checkpoint == [{(topic.name, 0): topic.stop_offset}]


def test_start_by_time_is_the_first_record_that_is_as_late(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(3)
    rows = all_rows()
    time = rows[len(rows) // 2][5]
    first = next(number for number, row in enumerate(rows) if row[5] >= time)
    starting = str(round(time.timestamp() * 1000))
    assert joined(query(startingTimestamp=starting).batches()) == rows[first:]
    with pytest.raises(InvalidField, match="is as late as"):
        query(startingTimestamp=str(2**60)).batch()


def test_partition_without_finished_segments_is_waited_for(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(1)
    topic.delete(topic.segments)
    running = query()
    assert running.batch() == []
    assert running.checkpoint == [{}]
    topic.tier(1)
    assert joined(running.batches())[0][4] == topic.segments[1].start_offset


def test_assigned_partition_that_is_not_tiered_is_waited_for(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll, caplog: pytest.LogCaptureFixture
) -> None:
    topic.tier(1)
    waiting = query(assign=f'{{"{topic.name}":[0,1]}}')
    before = waiting.batches()
    topic.tier_second_partition()
    assert joined(before + waiting.batches()) == all_rows()
    assert caplog.messages == [f"nothing of {topic.name}-1 is tiered: it is read as empty"]


def test_partition_with_a_given_start_that_is_not_tiered_is_read_from_there_when_it_comes(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(1)
    starting = offsets_json({(topic.name, 0): topic.stop_offset, (topic.name, 1): 7})
    first_run = query(startingOffsets=starting)
    assert joined(first_run.batches()) == []
    later = query(first_run.checkpoint, startingOffsets=starting)
    assert later.batches() == []
    topic.tier_second_partition()
    assert joined(later.batches()) == [row for row in all_rows() if row[3] == 1 and row[4] >= 7]


def test_partition_that_was_read_and_is_not_there_any_more_fails(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(1)
    starting = offsets_json({(topic.name, 0): 0, (topic.name, 1): 0})
    gone = [{(topic.name, 0): topic.stop_offset, (topic.name, 1): 9}]
    with pytest.raises(OffsetOutOfRange, match=f"{topic.name}-1 is not in the tier any more"):
        query(gone, startingOffsets=starting).batch()


def test_partition_that_comes_before_a_first_batch_is_repeated_does_not_stop_the_query(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll, caplog: pytest.LogCaptureFixture
) -> None:
    topic.tier(2)
    starting = {"startingOffsets": offsets_json({(topic.name, 0): 5})}
    first_run = query(**starting)
    rows = first_run.batch()
    topic.tier_second_partition()
    again = query(first_run.checkpoint, **starting)
    assert again.last_batch_again() == rows
    later = query(first_run.checkpoint, **starting).batches()
    assert joined([rows or [], *later]) == [row for row in all_rows() if row[3] == 1 or row[4] >= 5]
    assert f"the start of {topic.name}-1 is not given: it is read from its beginning" in caplog.messages


def test_start_that_names_a_partition_of_another_topic_is_refused(topic: GrowingTopic, query: MakeQuery) -> None:
    topic.tier(1)
    starting = offsets_json({(topic.name, 0): 0, ("another", 0): 0})
    with pytest.raises(InvalidField, match="startingOffsets: it names another-0, which is not among"):
        query(startingOffsets=starting).batch()


def test_segments_that_are_deleted_and_copied_again_are_read_by_a_running_query(
    topic: GrowingTopic, query: MakeQuery, all_rows: ReadAll
) -> None:
    topic.tier(2)
    running = query(maxOffsetsPerTrigger="20")
    begun = running.batch() or []
    replaced = topic.segments
    topic.delete(replaced)
    topic.segments = []
    topic.tier(2)
    assert {one.segment_id for one in topic.segments}.isdisjoint(one.segment_id for one in replaced)
    assert joined([begun, *running.batches()]) == all_rows()


class CountingMetadata:
    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._metadata, name)


def test_only_what_changed_is_asked_for_again(
    client: Tiergate, topic: GrowingTopic, options: Callable[..., SourceOptions]
) -> None:
    topic.tier(1)
    topic.tier_second_partition()
    metadata = CountingMetadata(client.metadata)
    watch = TierWatch(cast(Tiergate, SimpleNamespace(metadata=metadata, storage=client.storage)), options())
    first = watch.look()
    assert sorted(metadata.calls) == ["list_partitions", "list_segments", "list_segments"]
    metadata.calls.clear()
    assert watch.look() == first
    assert metadata.calls == ["list_partitions"]
    topic.tier(1)
    metadata.calls.clear()
    assert watch.look()[topic.name, 0].latest == topic.stop_offset
    assert metadata.calls == ["list_partitions", "list_segments"]


def test_pattern_that_no_topic_matches_yet_is_told_once_and_waited_for(
    topic: GrowingTopic, query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = query(subscribePattern=topic.name)
    assert waiting.batch() == []
    assert waiting.batch() is None
    topic.tier(1)
    assert joined(waiting.batches())
    pattern = repr(topic.name)
    assert caplog.messages == [f"no topic in the tier matches the subscribePattern {pattern}: it is read as empty"]
