"""The names of options: which are known, which are taken silently from a query on Kafka, and what a wrong one meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from tiergate_client.errors import InvalidField

ISOLATION_LEVEL: Final = "kafka.isolation.level"
BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"

OPTIONS: Final = (
    "target",
    "access",
    "segments",
    "subscribe",
    "subscribePattern",
    "assign",
    "topicId",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "logStartOffset",
    "minTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "splitBytes",
    "includeHeaders",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    ISOLATION_LEVEL,
)

# Of Spark's Kafka source, about consumers that are not there and when a batch begins: the rows are the same.
_WITHOUT_EFFECT: Final = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
)

# Spark's Kafka source refuses these too: ignored, they would make other rows than their user expects.
_REFUSED: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": "say where to start with startingOffsets",
    "kafka.key.deserializer": "keys are binary; decode them with DataFrame operations",
    "kafka.value.deserializer": "values are binary; decode them with DataFrame operations",
    "kafka.enable.auto.commit": "offsets are not committed to Kafka; leave it out",
    "kafka.interceptor.classes": "records are given as they are stored; leave it out",
}

_BY_LOWER_CASE: Final[Mapping[str, str]] = {name.lower(): name for name in OPTIONS}
_IGNORED_LOWER_CASE: Final = frozenset(name.lower() for name in _WITHOUT_EFFECT)
_VERY_CLOSE: Final = 0.85


def known_options(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options under their proper names, and the names of those that are ignored.

    Names are compared without their case, as everywhere in Spark. Raises InvalidField for a name that is not known.
    """
    known: dict[str, str] = {}
    ignored: list[str] = []
    for name, text in given.items():
        lower = name.lower()
        if lower in _BY_LOWER_CASE:
            known[_BY_LOWER_CASE[lower]] = text
        elif _is_ignored(name, lower):
            ignored.append(name)
        else:
            raise InvalidField.of(name, f"there is no such option; {_what_it_meant(lower)}")
    return known, ignored


def _is_ignored(name: str, lower: str) -> bool:
    if lower in _REFUSED:
        raise InvalidField.of(name, f"it is not supported; {_REFUSED[lower]}")
    if lower.startswith("kafka."):
        return not get_close_matches(lower, [ISOLATION_LEVEL], cutoff=_VERY_CLOSE)
    return lower in _IGNORED_LOWER_CASE


def _what_it_meant(lower: str) -> str:
    if lower == "path":
        return "load() takes no path, name the topic with subscribe"
    if lower in ("topic", "topics"):
        return "did you mean 'subscribe'?"
    near = get_close_matches(lower, [*_BY_LOWER_CASE, BOOTSTRAP_SERVERS], n=1)
    if not near:
        return f"there are {', '.join(OPTIONS)}"
    return f"did you mean {_BY_LOWER_CASE.get(near[0], 'target')!r}?"
