"""What the filters of a query say about partitions, offsets and times, so that less is read.

A filter is used for nothing else: Spark applies all of them to the rows again. Of times only lower bounds count. Kafka
keeps for each segment, and for places inside it, how late its records are at most; how early they are is not kept, and
records need not be in the order of their times. An upper bound is given with `endingTimestamp` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tiergate_spark.offsets import TopicPartition
from tiergate_spark.schema import Column

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `lower` on and below `stop`."""

    lower: int | None = None
    stop: int | None = None

    def narrowed(self, *, lower: int | None = None, stop: int | None = None) -> Interval:
        return Interval(_latest(self.lower, lower), _earliest(self.stop, stop))

    def holds(self, number: int) -> bool:
        return (self.lower is None or number >= self.lower) and (self.stop is None or number < self.stop)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows outside of these are not wanted; those inside may be unwanted too."""

    topics: frozenset[str] | None = None
    partitions: Interval = Interval()
    partition_numbers: frozenset[int] | None = None
    offsets: Interval = Interval()
    min_timestamp_ms: int | None = None

    def allow(self, place: TopicPartition) -> bool:
        topic, partition = place
        return (
            (self.topics is None or topic in self.topics)
            and self.partitions.holds(partition)
            and (self.partition_numbers is None or partition in self.partition_numbers)
        )


def bounds_of(filters: Iterable[Filter], columns: Sequence[Column]) -> Bounds:
    """Of filters that all hold."""
    contents = {column.name.lower(): column.content for column in columns}
    bounds = Bounds()
    for one in filters:
        bounds = _narrowed(bounds, one, contents)
    return bounds


def _narrowed(bounds: Bounds, one: Filter, contents: Mapping[str, str]) -> Bounds:
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    content = contents.get(attribute[0].lower()) if len(attribute) == 1 else None
    match content:
        case "topic":
            names = [value for value in _values(one) if isinstance(value, str)]
            return replace(bounds, topics=_common(bounds.topics, names)) if names else bounds
        case "partition":
            numbers = [value for value in _values(one) if isinstance(value, int)]
            common = _common(bounds.partition_numbers, numbers) if numbers else bounds.partition_numbers
            return replace(bounds, partitions=_narrower(bounds.partitions, one), partition_numbers=common)
        case "offset":
            return replace(bounds, offsets=_narrower(bounds.offsets, one))
        case "timestamp":
            return replace(bounds, min_timestamp_ms=_latest(bounds.min_timestamp_ms, _lowest_time_ms(one)))
        case _:
            return bounds


def _values(one: Filter) -> list[Any]:
    """The values that a row must have one of; none where the filter does not say."""
    match one:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return [value]
        case In(value=values):
            return [value for value in values if value is not None]
        case _:
            return []


def _narrower(interval: Interval, one: Filter) -> Interval:
    match one:
        case GreaterThanOrEqual(value=int(value)):
            return interval.narrowed(lower=value)
        case GreaterThan(value=int(value)):
            return interval.narrowed(lower=value + 1)
        case LessThan(value=int(value)):
            return interval.narrowed(stop=value)
        case LessThanOrEqual(value=int(value)):
            return interval.narrowed(stop=value + 1)
    numbers = [value for value in _values(one) if isinstance(value, int)]
    return interval.narrowed(lower=min(numbers), stop=max(numbers) + 1) if numbers else interval


def _lowest_time_ms(one: Filter) -> int | None:
    match one:
        case GreaterThan(value=value) | GreaterThanOrEqual(value=value):
            values = [value]
        case _:
            values = _values(one)
    # A time without a zone is no TimestampType: Spark compares it in a zone that is not known here.
    times = [value for value in values if isinstance(value, datetime) and value.tzinfo is not None]
    return min((value - _EPOCH) // _MILLISECOND for value in times) if times and len(times) == len(values) else None


def _common(known: frozenset[Any] | None, values: Iterable[Any]) -> frozenset[Any]:
    return frozenset(values) if known is None else known & frozenset(values)


def _latest(one: int | None, other: int | None) -> int | None:
    return max((number for number in (one, other) if number is not None), default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)
