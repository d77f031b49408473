"""A profile as one HTML page that needs nothing else: no network, no scripts. What is measured is not decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tiergate_client.sizes import size_text
from tiergate_spark.pipelines.chart_axes import (
    COUNT,
    RATIO,
    SHARE,
    SIZE,
    TimeAxis,
    count_text,
    moment_text,
    ratio_text,
    share_text,
)
from tiergate_spark.pipelines.charts import Series, bar_chart, line_chart
from tiergate_spark.pipelines.hours import END_OF_CALENDAR_MS, HOUR_MS
from tiergate_spark.pipelines.page_style import STYLE

_CODEC_STYLES: Final = {"none": "grey", "gzip": "purple", "snappy": "green", "lz4": "blue", "zstd": "orange"}
_PERCENTILES: Final = (("p50", "blue"), ("p95", "orange"), ("p99", "red"))


@dataclass(frozen=True, slots=True)
class Measures:
    """What is told of an hour, or of a whole topic."""

    records: int
    batches: int
    stored_bytes: int
    plain_bytes: int
    codec_bytes: Mapping[str, int]
    distinct_keys: int
    null_keys: int
    tombstones: int

    @property
    def compression_ratio(self) -> float:
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0


@dataclass(frozen=True, slots=True)
class HourProfile:
    """An hour with records; `hour_ms` is None for records whose time is outside of the calendar."""

    hour_ms: int | None
    measures: Measures
    record_bytes: Mapping[str, int]
    """By percentile: p50, p95, p99."""


@dataclass(frozen=True, slots=True)
class TopicProfile:
    topic: str
    measures: Measures
    hours: Sequence[HourProfile]


def profile_page(topics: Sequence[TopicProfile]) -> str:
    names = ", ".join(topic.topic for topic in topics)
    sections = "".join(_section(number, topic) for number, topic in enumerate(topics))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Profile of {escape(names)}</title><style>{STYLE}</style></head><body>"
        "<h1>Profile of the remote tier</h1>"
        "<p>Hours are UTC, by the time of the records. Sizes are of whole batches, as stored and without compression; "
        "keys are counted approximately.</p>"
        f"{_overview(topics)}{sections}</body></html>\n"
    )


def _overview(topics: Sequence[TopicProfile]) -> str:
    head = (
        "Topic",
        "From",
        "To",
        "Records",
        "Stored",
        "Uncompressed",
        "Ratio",
        "Distinct keys",
        "Null keys",
        "Tombstones",
    )
    rows = []
    for number, topic in enumerate(topics):
        times = [hour.hour_ms for hour in topic.hours if hour.hour_ms is not None]
        one = topic.measures
        cells = (
            moment_text(min(times)) if times else "-",
            moment_text(min(max(times) + HOUR_MS, END_OF_CALENDAR_MS - 1)) if times else "-",
            count_text(one.records),
            size_text(one.stored_bytes),
            size_text(one.plain_bytes),
            ratio_text(one.compression_ratio),
            count_text(one.distinct_keys),
            share_text(_share(one.null_keys, one)),
            share_text(_share(one.tombstones, one)),
        )
        name = f'<a href="#topic-{number}">{escape(topic.topic)}</a>'
        rows.append(f"<tr><td>{name}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    titles = "".join(f"<th>{title}</th>" for title in head)
    table = f"<thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="wide"><table class="topics">{table}</table></div>'


def _section(number: int, topic: TopicProfile) -> str:
    timed = [hour for hour in topic.hours if hour.hour_ms is not None]
    one = topic.measures
    facts = {
        "records": count_text(one.records),
        "stored": size_text(one.stored_bytes),
        "compression ratio": ratio_text(one.compression_ratio),
        "distinct keys": count_text(one.distinct_keys),
        "records per batch": count_text(one.records / one.batches) if one.batches else "-",
        "hours with records": f"{len(timed):,}",
    }
    told = "".join(f"<li><b>{escape(value)}</b><span>{name}</span></li>" for name, value in facts.items())
    without_time = one.records - sum(hour.measures.records for hour in timed)
    note = (
        f"<p>{count_text(without_time)} records have a time outside of the calendar, and no hour.</p>"
        if without_time
        else ""
    )
    content = _Charts(timed).html() if timed else "<p>There is no hour to show.</p>"
    return f'<h2 id="topic-{number}">{escape(topic.topic)}</h2><ul class="facts">{told}</ul>{note}{content}'


def _share(part: int, measures: Measures) -> float:
    return part / measures.records if measures.records else 0.0


class _Charts:
    """The charts of one topic. Where hours are joined to longer buckets, what can not be added up is the highest."""

    def __init__(self, hours: Sequence[HourProfile]) -> None:
        times = [hour.hour_ms for hour in hours if hour.hour_ms is not None]
        self._axis = TimeAxis.over(min(times), max(times))
        self._buckets: list[list[HourProfile]] = [[] for _ in range(self._axis.bucket_count)]
        for hour in hours:
            if hour.hour_ms is not None:
                self._buckets[self._axis.bucket_of(hour.hour_ms)].append(hour)
        self._per = f"per {self._axis.length_text}"
        self._highest = "" if self._axis.bucket_ms == HOUR_MS else ", highest hour"

    def html(self) -> str:
        codecs = [self._sums(name, style, _bytes_of(name)) for name, style in _CODEC_STYLES.items()]
        written = [one for one in codecs if any(one.values)]
        ratios = [self._ratio(bucket) for bucket in self._buckets]
        keys = [max((hour.measures.distinct_keys for hour in bucket), default=0) for bucket in self._buckets]
        sizes = [Series(name, style, self._sizes(name)) for name, style in _PERCENTILES]
        shares = [
            self._shares("null keys", "purple", lambda one: one.null_keys),
            self._shares("tombstones", "orange", lambda one: one.tombstones),
        ]
        axis = self._axis
        records = [self._sums("records", "blue", lambda one: one.records)]
        figures = (
            _figure(f"Records {self._per}", (), bar_chart(axis, records, unit=COUNT)),
            _figure(f"Stored bytes {self._per}, by codec", written, bar_chart(axis, written, unit=SIZE)),
            _figure("Compression ratio", (), line_chart(axis, [Series("ratio", "green", ratios)], unit=RATIO)),
            _figure(
                f"Distinct keys per hour{self._highest}",
                (),
                bar_chart(axis, [Series("distinct keys", "purple", keys)], unit=COUNT),
            ),
            _figure(f"Size of key and value{self._highest}", sizes, line_chart(axis, sizes, unit=SIZE)),
            _figure("Share of records", shares, line_chart(axis, shares, unit=SHARE)),
        )
        return f'<div class="charts">{"".join(figures)}</div>{self._table()}'

    def _sums(self, name: str, style: str, part: Callable[[Measures], int]) -> Series:
        return Series(name, style, [sum(part(hour.measures) for hour in bucket) for bucket in self._buckets])

    def _shares(self, name: str, style: str, part: Callable[[Measures], int]) -> Series:
        def share(bucket: list[HourProfile]) -> float | None:
            records = sum(hour.measures.records for hour in bucket)
            return sum(part(hour.measures) for hour in bucket) / records if records else None

        return Series(name, style, [share(bucket) for bucket in self._buckets])

    @staticmethod
    def _ratio(bucket: list[HourProfile]) -> float | None:
        stored = sum(hour.measures.stored_bytes for hour in bucket)
        return sum(hour.measures.plain_bytes for hour in bucket) / stored if stored else None

    def _sizes(self, percentile: str) -> list[float | None]:
        return [max((hour.record_bytes[percentile] for hour in bucket), default=None) for bucket in self._buckets]

    def _table(self) -> str:
        head = ("From", "Records", "Stored", "Uncompressed", "Ratio", "Null keys", "Tombstones")
        rows = []
        for number, bucket in enumerate(self._buckets):
            if not bucket:
                continue
            records, stored, plain, null_keys, tombstones = (
                sum(getattr(hour.measures, name) for hour in bucket)
                for name in ("records", "stored_bytes", "plain_bytes", "null_keys", "tombstones")
            )
            cells = (
                self._axis.bucket_text(number),
                f"{records}",
                size_text(stored),
                size_text(plain),
                ratio_text(plain / stored if stored else 1),
                f"{null_keys}",
                f"{tombstones}",
            )
            rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
        titles = "".join(f"<th>{title}</th>" for title in head)
        return (
            '<details><summary>The figures</summary><div class="wide"><table>'
            f"<thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
        )


def _bytes_of(codec: str) -> Callable[[Measures], int]:
    return lambda measures: measures.codec_bytes.get(codec, 0)


def _figure(title: str, legend: Sequence[Series], chart: str) -> str:
    entries = "".join(f'<span><i class="{one.style}"></i>{escape(one.name)}</span>' for one in legend)
    return f"<figure><figcaption><h3>{escape(title)}</h3>{entries}</figcaption>{chart}</figure>"
