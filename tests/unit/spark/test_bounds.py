"""Filters narrow what is read, and never leave out a row that they let through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from tiergate_spark.bounds import Bounds, Interval, bounds_of
from tiergate_spark.schema import columns_of, source_schema

COLUMNS = columns_of(source_schema(include_headers=True))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bounds(*filters: Filter) -> Bounds:
    return bounds_of(filters, COLUMNS)


def at(milliseconds: float) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def test_no_filters_bound_nothing() -> None:
    assert bounds() == Bounds()


def test_topics_that_a_row_must_be_of_are_kept() -> None:
    found = bounds(In(("topic",), ("a", "b", None)), EqualTo(("topic",), "b"))
    assert found.topics == frozenset({"b"})
    assert found.allow(("b", 3))
    assert not found.allow(("a", 3))


def test_partitions_that_a_row_must_be_of_are_kept() -> None:
    found = bounds(GreaterThan(("partition",), 1), LessThanOrEqual(("partition",), 5), In(("partition",), (1, 2, 5, 6)))
    assert [number for number in range(9) if found.allow(("a", number))] == [2, 5]


def test_offsets_become_an_interval() -> None:
    assert bounds(GreaterThan(("offset",), 9), LessThan(("OFFSET",), 20)).offsets == Interval(10, 20)
    assert bounds(In(("offset",), (5, 7, 6))).offsets == Interval(5, 8)
    assert bounds(EqualNullSafe(("offset",), 5)).offsets == Interval(5, 6)


def test_lower_bounds_of_times_are_kept_and_rounded_down() -> None:
    assert bounds(GreaterThanOrEqual(("timestamp",), at(1500.9))).min_timestamp_ms == 1500
    assert bounds(GreaterThan(("timestamp",), at(5)), EqualTo(("timestamp",), at(9))).min_timestamp_ms == 9
    assert bounds(In(("timestamp",), (at(8), at(6)))).min_timestamp_ms == 6


@pytest.mark.parametrize(
    "one",
    [
        LessThan(("timestamp",), at(5)),
        LessThanOrEqual(("timestamp",), at(5)),
        GreaterThan(("timestamp",), datetime(2024, 1, 1)),  # noqa: DTZ001 - what a time without a zone does
        Not(EqualTo(("offset",), 5)),
        IsNotNull(("offset",)),
        IsNull(("topic",)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("headers", "key"), "offset"),
        EqualTo(("value",), b"x"),
        EqualTo(("elsewhere",), 5),
        EqualTo(("offset",), None),
        In(("topic",), (None,)),
    ],
)
def test_filter_that_says_nothing_about_places_bounds_nothing(one: Filter) -> None:
    assert bounds(one) == Bounds()


_COMPARISONS: tuple[tuple[type[Any], Callable[[int, int], bool]], ...] = (
    (EqualTo, lambda row, value: row == value),
    (GreaterThan, lambda row, value: row > value),
    (GreaterThanOrEqual, lambda row, value: row >= value),
    (LessThan, lambda row, value: row < value),
    (LessThanOrEqual, lambda row, value: row <= value),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("partition", "offset", "timestamp")), st.sampled_from(_COMPARISONS), st.integers(0, 9)
        )
    ),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_row_that_passes_every_filter_is_within_the_bounds(
    drawn: list[tuple[str, tuple[type[Any], Callable[[int, int], bool]], int]], partition: int, offset: int, time: int
) -> None:
    row = {"partition": partition, "offset": offset, "timestamp": time}
    filters = [kind((name,), at(value) if name == "timestamp" else value) for name, (kind, _), value in drawn]
    found = bounds(*filters)
    is_within = found.allow(("a", partition)) and found.offsets.holds(offset) and time >= (found.min_timestamp_ms or 0)
    if all(holds(row[name], value) for name, (_, holds), value in drawn):
        assert is_within
    elif all(name != "timestamp" for name, _, _ in drawn):
        assert not is_within
