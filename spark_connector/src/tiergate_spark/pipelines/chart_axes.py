"""Scales of charts: which stretches of time are one bar, where ticks stand, and what is written at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log, log10
from typing import Final

from tiergate_client.sizes import size_text
from tiergate_spark.pipelines.hours import END_OF_CALENDAR_MS, HOUR_MS

DAY_MS: Final = 24 * HOUR_MS

_MOST_BUCKETS: Final = 200
_BUCKETS_MS: Final = tuple(HOUR_MS * hours for hours in (1, 2, 3, 6, 12, 24, 2 * 24, 7 * 24, 28 * 24))
_TICKS_MS: Final = tuple(HOUR_MS * hours for hours in (1, 2, 3, 6, 12, 24, 2 * 24, 7 * 24, 14 * 24, 28 * 24, 91 * 24))
_YEAR_MS: Final = 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Hours from `start_ms` on, below `stop_ms`, in buckets of equal length."""

    start_ms: int
    stop_ms: int
    bucket_ms: int

    @classmethod
    def over(cls, first_hour_ms: int, last_hour_ms: int) -> TimeAxis:
        """In as many buckets as can be told apart."""
        span_ms = last_hour_ms + HOUR_MS - first_hour_ms
        years = ceil(span_ms / _MOST_BUCKETS / _YEAR_MS)
        fitting = (one for one in _BUCKETS_MS if span_ms <= one * _MOST_BUCKETS)
        bucket_ms = next(fitting, years * _YEAR_MS)
        start_ms = first_hour_ms // bucket_ms * bucket_ms
        count = ceil((last_hour_ms + HOUR_MS - start_ms) / bucket_ms)
        return cls(start_ms, start_ms + count * bucket_ms, bucket_ms)

    @property
    def bucket_count(self) -> int:
        return (self.stop_ms - self.start_ms) // self.bucket_ms

    def bucket_of(self, time_ms: int) -> int:
        return (time_ms - self.start_ms) // self.bucket_ms

    def share(self, time_ms: float) -> float:
        """Where on the axis a time is, from 0 to 1."""
        return (time_ms - self.start_ms) / (self.stop_ms - self.start_ms)

    def bucket_text(self, bucket: int) -> str:
        text = moment_text(self.start_ms + bucket * self.bucket_ms)
        return text if self.bucket_ms == HOUR_MS else f"{text} + {self.length_text}"

    @property
    def length_text(self) -> str:
        """How long a bucket is: "hour", "6 hours"."""
        for unit_ms, unit in ((_YEAR_MS, "year"), (DAY_MS, "day"), (HOUR_MS, "hour")):
            if self.bucket_ms % unit_ms == 0:
                count = self.bucket_ms // unit_ms
                return unit if count == 1 else f"{count} {unit}s"
        return f"{self.bucket_ms} ms"

    def ticks(self, most: int) -> Iterator[tuple[int, str]]:
        """Times on round hours and days, and what to write there."""
        span_ms = self.stop_ms - self.start_ms
        rest = ceil(span_ms / most / _YEAR_MS) * _YEAR_MS
        step_ms = next((one for one in _TICKS_MS if span_ms <= one * most), rest)
        stop_ms = min(self.stop_ms, END_OF_CALENDAR_MS)  # the last bucket may reach beyond
        for time_ms in range(ceil(self.start_ms / step_ms) * step_ms, stop_ms, step_ms):
            yield time_ms, _tick_text(time_ms, step_ms)


def moment_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _tick_text(time_ms: int, step_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms // 1000, tz=UTC)
    if step_ms >= _YEAR_MS:
        return moment.strftime("%Y")
    if step_ms >= DAY_MS:
        return moment.strftime("%d %b %Y" if step_ms > 28 * DAY_MS else "%d %b")
    return moment.strftime("%d %b" if moment.hour == 0 else "%H:%M")


@dataclass(frozen=True, slots=True)
class Unit:
    """How values are written, and of which number their prefixes are powers."""

    text: Callable[[float], str]
    base: int = 1000


def round_ticks(highest: float, *, base: int = 1000, most: int = 4) -> list[float]:
    """From 0 up to a round number at or above the highest, in round steps: round as it is written with prefixes."""
    if highest <= 0:
        return [0.0, 1.0]
    prefix = float(base) ** max(0, floor(log(highest, base)))
    number = highest / prefix
    magnitude = 10.0 ** floor(log10(number / most))
    step = next(one * magnitude for one in (1, 2, 2.5, 5, 10) if one * magnitude * most >= number * 0.9999)
    return [step * prefix * tick for tick in range(ceil(number / step * 0.9999) + 1)]


def count_text(number: float) -> str:
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g} {prefix}"
    return f"{number:.3g}"


def share_text(share: float) -> str:
    return f"{share * 100:.3g} %"


def ratio_text(ratio: float) -> str:
    return f"{ratio:.3g} x"


COUNT: Final = Unit(count_text)
SHARE: Final = Unit(share_text)
RATIO: Final = Unit(ratio_text)
SIZE: Final = Unit(size_text, base=1024)
