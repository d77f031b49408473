"""The offsets of each partition that a read's limits stand for; what holds them is found in `planning.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiergate_client.errors import InvalidField
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import PartitionHistory
from tiergate_client.records.time_lookup import find_offset_by_time
from tiergate_client.records.transactions import last_stable_offset
from tiergate_client.values import TopicIdPartition
from tiergate_spark.data_loss import in_words_of_spark
from tiergate_spark.offsets import (
    EARLIEST,
    LATEST,
    EarliestOffsets,
    GivenOffsets,
    GivenTimes,
    LatestOffsets,
    OffsetLimit,
    TimeForAll,
    TopicPartition,
    named_offsets,
    partition_name,
    partition_names,
)
from tiergate_spark.options import NoMatchStrategy, SourceOptions
from tiergate_spark.partitions import tell_untiered
from tiergate_spark.topic_selection import Assign

Edge = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """[start, stop); an edge is that of the tier."""

    start: int | Edge
    stop: int | Edge

    @property
    def is_empty(self) -> bool:
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return self.start == self.stop
        return self.start == "latest" or self.stop == "earliest"


def check_named_partitions(tiered: set[TopicPartition], options: SourceOptions) -> None:
    """Limits of a batch that name partitions must name all, as in Spark's Kafka source. Raises InvalidField.

    Those of which nothing is tiered may be named too, but nothing is at an offset of them.
    """
    untiered: set[TopicPartition] = set()
    for edge, limit in (("starting", options.starting), ("ending", options.ending)):
        named = named_partitions(edge, limit, options)
        if named is None:
            continue
        option, places = named
        if missing := tiered - places:
            strange = f", and nothing of {partition_names(places - tiered)} is tiered" if places - tiered else ""
            raise InvalidField.of(
                option,
                f"it must name every partition that is read, but {partition_names(missing)} is missing{strange}; "
                "-2 is earliest, -1 latest",
            )
        untiered |= places - tiered
        nowhere = {place for place, offset in named_offsets(limit).items() if offset > 0} - tiered
        if nowhere and options.fail_on_data_loss:
            raise InvalidField.of(
                option,
                f"nothing of {partition_names(nowhere)} is tiered, so that no offset of it can be asked for; give -2 "
                "as its start and -1 as its end, or failOnDataLoss=false to read what there is",
            )
    if not isinstance(options.topics, Assign):  # of those that are assigned it is told anyhow
        tell_untiered(untiered)


def named_partitions(
    edge: str, limit: OffsetLimit | None, options: SourceOptions
) -> tuple[str, frozenset[TopicPartition]] | None:
    """The option behind a limit that names partitions, and which ones. Raises InvalidField for one that is not read."""
    match limit:
        case GivenOffsets(numbers):
            option = f"{edge}Offsets"
        case GivenTimes(numbers):
            option = f"{edge}OffsetsByTimestamp"
        case _:
            return None
    strange = [place for place in numbers if not options.topics.chooses(place)]
    if strange:
        raise InvalidField.of(
            option, f"it names {partition_names(strange)}, which is not among the partitions of this read; leave it out"
        )
    return option, frozenset(numbers)


def log_start_of(partition: TopicIdPartition, options: SourceOptions) -> int | None:
    given = options.log_starts
    return given if given is None or isinstance(given, int) else given.get((partition.topic, partition.partition))


def offset_range(
    history: PartitionHistory, storage: RemoteStorage, *, options: SourceOptions, log_start_offset: int | None
) -> OffsetRange:
    """What the options say about this partition.

    Raises InvalidField when no record is as late as the start, or when the start is found to be behind the end.
    """
    partition = history.partition
    place = partition.topic, partition.partition

    def offset_at(time: _Time) -> int | None:
        with in_words_of_spark():
            found = find_offset_by_time(
                history,
                storage,
                time.timestamp_ms,
                start_offset=log_start_offset or 0,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        if found is None or options.isolation == "read_uncommitted":
            return None if found is None else found.offset
        return found.offset if found.offset < last_stable_offset(history, storage) else None  # as a broker tells it

    start = _edge_or_number(options.starting or EarliestOffsets(), place)
    if isinstance(start, _Time):
        first = offset_at(start)
        start = _start_without_match(place, start, options.starting_without_match) if first is None else first
    stop = _edge_or_number(options.ending or LatestOffsets(), place)
    if isinstance(stop, _Time):
        end = offset_at(stop)
        stop = "latest" if end is None else end
    if isinstance(start, int) and isinstance(stop, int) and start > stop:
        raise InvalidField.of(
            "startingOffsets", f"the read of {partition_name(place)} would start at {start}, behind its end at {stop}"
        )
    return OffsetRange(start, stop)


@dataclass(frozen=True, slots=True)
class _Time:
    timestamp_ms: int


def _edge_or_number(limit: OffsetLimit, place: TopicPartition) -> int | Edge | _Time:
    match limit:
        case EarliestOffsets():
            return "earliest"
        case LatestOffsets():
            return "latest"
        case TimeForAll(timestamp_ms):
            return _Time(timestamp_ms)
        case GivenTimes(timestamps_ms):
            return _Time(timestamps_ms[place])
        case GivenOffsets(offsets):
            edges: dict[int, Edge] = {EARLIEST: "earliest", LATEST: "latest"}
            return edges.get(offsets[place], offsets[place])


def _start_without_match(place: TopicPartition, start: _Time, strategy: NoMatchStrategy) -> Edge:
    if strategy == "latest":
        return "latest"
    raise InvalidField.of(
        "startingTimestamp",
        f"no record of {partition_name(place)} in the tier is as late as {start.timestamp_ms}; "
        "set startingOffsetsByTimestampStrategy to latest to read nothing of such partitions",
    )
