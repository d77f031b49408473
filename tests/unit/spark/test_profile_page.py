"""The page of a profile: stands alone, shows what was measured, and bears with any name and any times."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_spark.pipelines.chart_axes import DAY_MS, TimeAxis, round_ticks
from tiergate_spark.pipelines.hours import END_OF_CALENDAR_MS, HOUR_MS
from tiergate_spark.pipelines.profile_command import summary_text
from tiergate_spark.pipelines.profile_page import HourProfile, Measures, TopicProfile, profile_page

FIRST_MS = 1_700_002_800_000
LAST_HOUR_MS = END_OF_CALENDAR_MS - HOUR_MS


def measured(records: int, **codecs: int) -> Measures:
    stored = sum(codecs.values())
    return Measures(
        records, max(1, records // 10), stored, 3 * stored, codecs, records // 2, records // 5, records // 4
    )


def hour(time_ms: int | None, records: int = 100, **codecs: int) -> HourProfile:
    return HourProfile(time_ms, measured(records, **(codecs or {"lz4": 5000})), {"p50": 10, "p95": 90, "p99": 2000})


def page_of(*hours: HourProfile, topic: str = "orders") -> str:
    records = sum(one.measures.records for one in hours)
    return profile_page([TopicProfile(topic, measured(records, lz4=5000 * len(hours)), hours)])


def charts_in(page: str) -> list[ET.Element]:
    """Each one is parsed, so none has what a browser would have to guess."""
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]  # noqa: S314 - our own


def test_page_needs_nothing_but_itself() -> None:
    page = page_of(*(hour(FIRST_MS + number * HOUR_MS) for number in range(5)))
    for outside in ("http:", "https:", "src=", "<script", "@import", "url("):
        assert outside not in page


def test_names_are_text_wherever_they_stand() -> None:
    page = page_of(hour(FIRST_MS), topic="<script>&")
    assert "<script" not in page
    assert page.count("&lt;script&gt;&amp;") == 3


def test_values_stand_at_the_bars_and_gaps_are_empty() -> None:
    page = page_of(hour(FIRST_MS, 40), hour(FIRST_MS + 3 * HOUR_MS, 70, gzip=1000, none=24))
    records, stored, *_ = charts_in(page)
    titles = [title.text for title in records.iter("title")]
    assert titles == ["2023-11-14 23:00\nrecords: 40", "2023-11-15 02:00\nrecords: 70"]
    heights = [float(bar.attrib["height"]) for bar in records.iter("rect")]
    assert heights[0] / heights[1] == pytest.approx(40 / 70, rel=0.01)
    assert [title.text for title in stored.iter("title")][1] == "2023-11-15 02:00\nnone: 24 B\ngzip: 1000 B"


def test_months_are_shown_in_longer_buckets_that_hold_all_records() -> None:
    page = page_of(*(hour(FIRST_MS + number * HOUR_MS, 10) for number in range(24 * 90)))
    records, *_ = charts_in(page)
    told = [int(str(title.text).rpartition(" ")[2]) for title in records.iter("title")]
    assert "Records per 12 hours" in page
    assert sum(told) == 24 * 90 * 10


def test_records_without_an_hour_are_told() -> None:
    page = page_of(hour(None, 7), hour(FIRST_MS, 3))
    assert "7 records have a time outside of the calendar" in page
    assert "There is no hour to show" in page_of(hour(None, 7))


def test_topic_without_records_and_no_topic_at_all_have_a_page() -> None:
    assert "There is no hour to show" in profile_page([TopicProfile("empty", measured(0), ())])
    assert "Profile of the remote tier" in profile_page([])


def test_last_hour_of_the_calendar_has_a_page() -> None:
    assert "9999-12-31 23:59" in page_of(hour(LAST_HOUR_MS))


@given(
    first=st.integers(0, LAST_HOUR_MS // HOUR_MS),
    length=st.one_of(st.integers(0, 48), st.integers(0, 24 * 400), st.integers(0, 24 * 365 * 8000)),
)
def test_any_stretch_of_time_has_few_buckets_and_ticks_inside_of_it(first: int, length: int) -> None:
    first_ms = first * HOUR_MS
    last_ms = min(first_ms + length * HOUR_MS, LAST_HOUR_MS)
    axis = TimeAxis.over(first_ms, last_ms)
    assert axis.bucket_of(first_ms) >= 0
    assert axis.bucket_of(last_ms) < axis.bucket_count <= 201
    ticks = list(axis.ticks(6))
    assert len(ticks) <= 6 + 1
    assert all(axis.start_ms <= time_ms < axis.stop_ms for time_ms, _ in ticks)
    assert axis.bucket_text(axis.bucket_of(last_ms))


def test_buckets_of_days_begin_with_days() -> None:
    axis = TimeAxis.over(FIRST_MS, FIRST_MS + 180 * DAY_MS)
    assert (axis.bucket_ms, axis.start_ms % DAY_MS) == (DAY_MS, 0)


@given(highest=st.floats(1e-6, 1e15), base=st.sampled_from([1000, 1024]))
def test_ticks_reach_the_highest_value_in_even_steps(highest: float, base: int) -> None:
    ticks = round_ticks(highest, base=base)
    assert ticks[0] == 0
    assert 0.999 * highest <= ticks[-1] <= 3 * highest
    assert 2 <= len(ticks) <= 6
    steps = {round((after - before) / ticks[1], 6) for before, after in pairwise(ticks)}
    assert steps == {1.0}


def test_summary_says_where_page_and_report_are() -> None:
    lines = summary_text([], Path("page.html"), "s3a://reports/orders").splitlines()
    assert lines == ["there are no records", "the page is page.html", "the report is in s3a://reports/orders"]
