"""Kafka's JSON of partitions, offsets and times."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import InvalidField
from tiergate_spark.offsets import (
    EarliestOffsets,
    GivenOffsets,
    GivenTimes,
    LatestOffsets,
    offsets_json,
    parse_log_starts,
    parse_offsets,
    parse_partitions,
    parse_times,
)

PLACES = st.tuples(st.text("abc.-_", min_size=1, max_size=5), st.integers(0, 2**31 - 1))


@given(st.dictionaries(PLACES, st.integers(-2, 2**63 - 1), max_size=8))
def test_offsets_are_the_same_after_a_round_trip(offsets: dict[tuple[str, int], int]) -> None:
    text = offsets_json(offsets)
    assert parse_offsets("startingOffsets", text) == GivenOffsets(offsets)
    assert json.loads(text) == {
        topic: {str(partition): offset for (name, partition), offset in offsets.items() if name == topic}
        for topic, _ in offsets
    }


def test_offsets_are_written_as_kafkas_source_writes_them() -> None:
    assert offsets_json({("b", 0): 1, ("a", 10): 2, ("a", 2): -1}) == '{"a":{"2":-1,"10":2},"b":{"0":1}}'


@pytest.mark.parametrize(
    ("text", "limit"), [(" Earliest", EarliestOffsets()), ("LATEST ", LatestOffsets()), ("{}", GivenOffsets({}))]
)
def test_words_are_taken_in_any_case(text: str, limit: object) -> None:
    assert parse_offsets("startingOffsets", text) == limit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "newest",
        "12",
        "[]",
        '{"a":5}',
        '{"a":{"0":"5"}}',
        '{"a":{"0":5.0}}',
        '{"a":{"0":true}}',
        '{"a":{"0":null}}',
        '{"a":{"x":5}}',
        '{"a":{"-1":5}}',
        '{"a":{"٣":5}}',
        '{"a":{"2147483648":5}}',
        '{"a":{"0":9223372036854775808}}',
        '{"a":{"0":5,"0":6}}',
        '{"a":{"0":5},"a":{"1":6}}',
        '{"a":{"0":5}',
    ],
)
def test_offsets_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_offsets("endingOffsets", text)
    assert caught.value.message == (
        f"endingOffsets: {text!r} is not valid; "
        'expected earliest, latest or JSON such as {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    )


def test_negative_number_that_stands_for_nothing_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidField) as caught:
        parse_offsets("startingOffsets", '{"a":{"0":-1,"1":-3}}')
    assert caught.value.message == (
        "startingOffsets: -3 for a-1 is no offset; of negative numbers only -2 (earliest) and -1 (latest) are allowed"
    )


def test_times_are_read_by_partition() -> None:
    assert parse_times("option", '{"a":{"0":1700000000000}}') == GivenTimes({("a", 0): 1_700_000_000_000})


@pytest.mark.parametrize("text", ["latest", "1700000000000", '{"a":{"0":-1}}', '{"a":[0]}'])
def test_times_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidField, match=re.escape('expected JSON such as {"topicA":{"0":1700000000000}}')):
        parse_times("option", text)


def test_log_starts_are_one_for_all_or_some() -> None:
    assert parse_log_starts("logStartOffset", " 12") == 12
    assert parse_log_starts("logStartOffset", '{"a":{"3":4}}') == {("a", 3): 4}


@pytest.mark.parametrize("text", ["-1", "earliest", '{"a":{"3":-2}}', "1.5", str(2**63)])
def test_log_starts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidField, match=r"logStartOffset: .* is not valid; expected an offset or JSON such as"):
        parse_log_starts("logStartOffset", text)


def test_partitions_are_read_by_topic() -> None:
    assert parse_partitions("assign", '{"a":[0,2],"b":[1]}') == {("a", 0), ("a", 2), ("b", 1)}


@pytest.mark.parametrize(
    "text",
    ["", "a", "[0]", "{}", '{"a":[]}', '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', '{"a":[2147483648]}'],
)
def test_partitions_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidField, match=re.escape('expected JSON such as {"topicA":')):
        parse_partitions("assign", text)
