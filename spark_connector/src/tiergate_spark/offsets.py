"""Where a read begins and ends, as Spark's Kafka source writes it: words, Kafka's offset JSON, times.

Which offsets of a partition these are is found in `ranges.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tiergate_client.errors import InvalidField

LATEST: Final = -1
EARLIEST: Final = -2

TopicPartition: TypeAlias = tuple[str, int]
PartitionNumbers: TypeAlias = Mapping[TopicPartition, int]

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = '{"topicA":{"0":1700000000000}}'
_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[2]}'
_MAX_LONG: Final = 2**63 - 1
_MIN_LONG: Final = -(2**63)
_MAX_PARTITION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EarliestOffsets:
    """The first offset of every partition."""


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """Behind the last offset of every partition."""


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """An offset for each partition; EARLIEST and LATEST may stand for one."""

    offsets: PartitionNumbers


@dataclass(frozen=True, slots=True)
class TimeForAll:
    """The first record of each partition that is at least so late."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GivenTimes:
    """The same, with a time for each partition."""

    timestamps_ms: PartitionNumbers


OffsetLimit: TypeAlias = EarliestOffsets | LatestOffsets | GivenOffsets | TimeForAll | GivenTimes


def named_offsets(limit: OffsetLimit | None) -> PartitionNumbers:
    """The offsets that a limit gives by number; a word stands for none."""
    if not isinstance(limit, GivenOffsets):
        return {}
    return {place: offset for place, offset in limit.offsets.items() if offset >= 0}


def parse_offsets(option: str, text: str) -> OffsetLimit:
    """`earliest`, `latest` or JSON, as in `startingOffsets`."""
    match text.strip().lower():
        case "earliest":
            return EarliestOffsets()
        case "latest":
            return LatestOffsets()
    expected = f"expected earliest, latest or JSON such as {_OFFSETS_EXAMPLE}"
    offsets = _numbers(option, text, expected=expected, minimum=_MIN_LONG)
    for place, offset in offsets.items():
        if offset < EARLIEST:
            raise InvalidField.of(
                option,
                f"{offset} for {partition_name(place)} is no offset; of negative numbers only -2 (earliest) and -1 "
                "(latest) are allowed",
            )
    return GivenOffsets(offsets)


def parse_times(option: str, text: str) -> GivenTimes:
    """JSON as in `startingOffsetsByTimestamp`."""
    return GivenTimes(
        _numbers(
            option, text, expected=f"expected JSON such as {_TIMES_EXAMPLE}, in milliseconds since the epoch", minimum=0
        )
    )


def parse_log_starts(option: str, text: str) -> int | PartitionNumbers:
    """One offset for all partitions, or JSON with one for some of them."""
    expected = 'expected an offset or JSON such as {"topicA":{"0":23}}'
    if text.strip().isdecimal():
        return _number(option, text.strip(), int(text), expected=expected, minimum=0)
    return _numbers(option, text, expected=expected, minimum=0)


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """JSON as in `assign`."""
    expected = f"expected JSON such as {_PARTITIONS_EXAMPLE}"
    topics = _json_object(option, text, expected)
    for partitions in topics.values():
        if not isinstance(partitions, list):
            raise _wrong(option, text, expected)
    named = [(topic, number) for topic, partitions in topics.items() for number in partitions]
    for _, number in named:
        _number(option, text, number, expected=expected, minimum=0, maximum=_MAX_PARTITION)
    if not named:
        raise _wrong(option, text, expected)
    return frozenset(named)


def offsets_json(offsets: PartitionNumbers) -> str:
    """Kafka's offset JSON: what Spark's Kafka source writes into checkpoints, sorted."""
    return json.dumps(offsets_by_topic(offsets), separators=(",", ":"))


def offsets_by_topic(offsets: PartitionNumbers) -> dict[str, dict[str, int]]:
    """The same before it is text."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def partition_name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def partition_names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(partition_name, sorted(partitions)))


def _numbers(option: str, text: str, *, expected: str, minimum: int) -> PartitionNumbers:
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(option, text, expected).items():
        if not isinstance(partitions, dict):
            raise _wrong(option, text, expected)
        for partition, number in partitions.items():
            if not (partition.isdecimal() and partition.isascii() and int(partition) <= _MAX_PARTITION):
                raise _wrong(option, text, expected)
            numbers[topic, int(partition)] = _number(option, text, number, expected=expected, minimum=minimum)
    return numbers


def _number(option: str, text: str, number: Any, *, expected: str, minimum: int, maximum: int = _MAX_LONG) -> int:
    if type(number) is not int or not minimum <= number <= maximum:
        raise _wrong(option, text, expected)
    return number


def _json_object(option: str, text: str, expected: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text, object_pairs_hook=_without_repetition)
    except ValueError:
        raise _wrong(option, text, expected) from None
    if not isinstance(parsed, dict):
        raise _wrong(option, text, expected)
    return parsed


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands there twice")
    return dict(pairs)


def _wrong(option: str, text: str, expected: str) -> InvalidField:
    return InvalidField.of(option, f"{text!r} is not valid; {expected}")
