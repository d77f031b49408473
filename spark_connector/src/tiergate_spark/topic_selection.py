"""Which partitions a user asks for; what is in the tier is asked in `partitions.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_spark.offsets import TopicPartition, parse_partitions
from tiergate_spark.option_values import parse_pattern, parse_words

_WAYS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Every partition of these topics."""

    names: tuple[str, ...]

    def chooses(self, place: TopicPartition) -> bool:
        return place[0] in self.names


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Every partition of the topics whose whole name matches."""

    pattern: str

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None

    def chooses(self, place: TopicPartition) -> bool:
        return self.matches(place[0])


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions."""

    partitions: frozenset[TopicPartition]

    def chooses(self, place: TopicPartition) -> bool:
        return place in self.partitions


TopicSelection: TypeAlias = Subscribe | SubscribePattern | Assign


def parse_topics(known: Mapping[str, str]) -> TopicSelection:
    given = [way for way in _WAYS if way in known]
    if len(given) != 1:
        fact = f"{' and '.join(given)} are given" if given else "none is given"
        raise InvalidField.of("subscribe", f"exactly one of {', '.join(_WAYS)} names the topics, but {fact}")
    option = given[0]
    match option:
        case "subscribe":
            return Subscribe(parse_words(option, known[option]))
        case "subscribePattern":
            return SubscribePattern(parse_pattern(option, known[option]))
        case _:
            return Assign(parse_partitions(option, known[option]))


def parse_topic_ids(known: Mapping[str, str]) -> Mapping[str, str] | str | None:
    """`topicId`: one id, or JSON with an id for some topics; each is checked to be one."""
    if "topicId" not in known:
        return None
    text = known["topicId"].strip()
    if not text.startswith("{"):
        _check_id(text)
        return text
    try:
        ids = json.loads(text)
    except ValueError:
        raise _wrong_ids(text) from None
    if not all(isinstance(name, str) for name in ids.values()):
        raise _wrong_ids(text)
    for one in ids.values():
        _check_id(one)
    return dict(ids)


def _check_id(text: str) -> None:
    try:
        TopicId.from_text(text)
    except InvalidField as refusal:
        raise InvalidField.of("topicId", refusal.message.removeprefix("id: ")) from None


def _wrong_ids(text: str) -> InvalidField:
    return InvalidField.of("topicId", f'{text!r} is not valid; expected an id or JSON such as {{"topicA":"id"}}')
