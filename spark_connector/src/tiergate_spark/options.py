"""What a user asks of the source, from the texts of the options to values.

Rules that hold for batch reads only are in `batch_rules.py`: when options are read, Spark has not said yet which it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tiergate_client import Access
from tiergate_client.errors import InvalidField
from tiergate_spark.offsets import (
    OffsetLimit,
    PartitionNumbers,
    TimeForAll,
    parse_log_starts,
    parse_offsets,
    parse_times,
)
from tiergate_spark.option_names import BOOTSTRAP_SERVERS, ISOLATION_LEVEL, known_options
from tiergate_spark.option_values import (
    Choice,
    parse_address,
    parse_boolean,
    parse_choice,
    parse_number,
    parse_size,
    parse_time,
)
from tiergate_spark.topic_selection import TopicSelection, parse_topic_ids, parse_topics

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
NoMatchStrategy: TypeAlias = Literal["error", "latest"]

DEFAULT_SPLIT_BYTES: Final = 128 * 1024 * 1024
_ACCESS: Final[tuple[Access, ...]] = get_args(Access)
_ISOLATION: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")
_NO_MATCH: Final[tuple[NoMatchStrategy, ...]] = ("error", "latest")
_MAX_INT: Final = 2**31 - 1

_log = logging.getLogger("tiergate_spark")


@dataclass(frozen=True, slots=True)
class Service:
    """Where Tiergate is, and how bytes are read from it."""

    target: str
    segments: str | None
    access: Access


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Valid one by one, and in the combinations that are wrong for any read."""

    service: Service
    topics: TopicSelection
    topic_ids: Mapping[str, str] | str | None
    """The id that is meant where a name has two: by topic, or one for all of them."""
    starting: OffsetLimit | None
    ending: OffsetLimit | None
    starting_without_match: NoMatchStrategy
    log_starts: int | PartitionNumbers | None
    min_timestamp_ms: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    split_bytes: int
    include_headers: bool
    fail_on_data_loss: bool
    isolation: Isolation


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises InvalidField, which names the option, at the first thing that is wrong."""
    known, ignored = known_options(given)
    parsed = SourceOptions(
        service=_service(known, ignored),
        topics=parse_topics(known),
        topic_ids=parse_topic_ids(known),
        starting=_limit(known, "starting"),
        ending=_limit(known, "ending"),
        starting_without_match=_choice(known, "startingOffsetsByTimestampStrategy", _NO_MATCH, "error"),
        log_starts=parse_log_starts("logStartOffset", known["logStartOffset"]) if "logStartOffset" in known else None,
        min_timestamp_ms=parse_time("minTimestamp", known["minTimestamp"]) if "minTimestamp" in known else None,
        min_partitions=_number(known, "minPartitions", minimum=1, maximum=_MAX_INT),
        max_records_per_partition=_number(known, "maxRecordsPerPartition", minimum=1),
        max_offsets_per_trigger=_number(known, "maxOffsetsPerTrigger", minimum=1),
        split_bytes=parse_size("splitBytes", known["splitBytes"]) if "splitBytes" in known else DEFAULT_SPLIT_BYTES,
        include_headers=_boolean(known, "includeHeaders", default=False),
        fail_on_data_loss=_boolean(known, "failOnDataLoss", default=True),
        isolation=_choice(known, ISOLATION_LEVEL, _ISOLATION, "read_uncommitted"),
    )
    if ignored:
        _log.warning("options of Spark's Kafka source that have no effect here: %s", ", ".join(sorted(ignored)))
    return parsed


def _service(known: Mapping[str, str], ignored: list[str]) -> Service:
    target, segments = known.get("target", "").strip(), known.get("segments", "").strip()
    if not target:
        instead = " instead of kafka.bootstrap.servers" if BOOTSTRAP_SERVERS in map(str.lower, ignored) else ""
        raise InvalidField.of("target", f"give the address of Tiergate's metadata plane, such as host:7400{instead}")
    access = _choice(known, "access", _ACCESS, "auto")
    return Service(
        target=parse_address("target", target),
        segments=parse_address("segments", segments) if segments else None,
        access=access,
    )


def _limit(known: Mapping[str, str], edge: Literal["starting", "ending"]) -> OffsetLimit | None:
    """Of several that are given, the one that Spark's Kafka source prefers."""
    time_for_all, times, offsets = f"{edge}Timestamp", f"{edge}OffsetsByTimestamp", f"{edge}Offsets"
    if time_for_all in known:
        return TimeForAll(parse_time(time_for_all, known[time_for_all]))
    if times in known:
        return parse_times(times, known[times])
    return parse_offsets(offsets, known[offsets]) if offsets in known else None


def _number(known: Mapping[str, str], option: str, *, minimum: int, maximum: int = 2**63 - 1) -> int | None:
    return parse_number(option, known[option], minimum=minimum, maximum=maximum) if option in known else None


def _boolean(known: Mapping[str, str], option: str, *, default: bool) -> bool:
    return parse_boolean(option, known[option]) if option in known else default


def _choice(known: Mapping[str, str], option: str, choices: tuple[Choice, ...], default: Choice) -> Choice:
    return parse_choice(option, known[option], choices) if option in known else default
