"""Charts over time as SVG, to stand in a page, whose classes give the colours; pointing at a value shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tiergate_spark.pipelines.chart_axes import TimeAxis, Unit, round_ticks

_WIDTH, _HEIGHT = 560, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 12, 26
_MOST_TIME_TICKS: Final = 6
_MOST_DOTS: Final = 60


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each bucket of the axis; None where there is none."""

    name: str
    style: str
    """A class of the page: it gives the colour."""
    values: Sequence[float | None]


def bar_chart(axis: TimeAxis, series: Sequence[Series], *, unit: Unit) -> str:
    """Bars on top of one another."""
    totals = [sum(one.values[bucket] or 0 for one in series) for bucket in range(axis.bucket_count)]
    scale = _Scale(axis, max(totals, default=0), unit)
    return _svg(scale, unit, _bars(scale, series, totals, unit))


def line_chart(axis: TimeAxis, series: Sequence[Series], *, unit: Unit) -> str:
    highest = max((value for one in series for value in one.values if value is not None), default=0)
    scale = _Scale(axis, highest, unit)
    return _svg(scale, unit, (part for one in series for part in _line(scale, one, unit)))


class _Scale:
    """From times and values to places in the picture."""

    def __init__(self, axis: TimeAxis, highest: float, unit: Unit) -> None:
        self.axis = axis
        self.ticks = round_ticks(highest, base=unit.base)

    def x(self, time_ms: float) -> float:
        return _LEFT + self.axis.share(time_ms) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.ticks[-1] * (_HEIGHT - _TOP - _BOTTOM)

    def bucket(self, number: int) -> tuple[float, float]:
        """Left and right of a bar."""
        begin_ms = self.axis.start_ms + number * self.axis.bucket_ms
        left, right = self.x(begin_ms), self.x(begin_ms + self.axis.bucket_ms)
        gap = min(2.0, (right - left) * 0.2)
        return left + gap / 2, right - gap / 2


def _svg(scale: _Scale, unit: Unit, content: Iterator[str]) -> str:
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for value in scale.ticks:
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(unit.text(value))}</text>'
        )
    for time_ms, label in scale.axis.ticks(_MOST_TIME_TICKS):
        x = scale.x(time_ms)
        base = _HEIGHT - _BOTTOM
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 17}" text-anchor="middle">{escape(label)}</text>')
    return "".join([*parts, *content, "</svg>"])


def _bars(scale: _Scale, series: Sequence[Series], totals: Sequence[float], unit: Unit) -> Iterator[str]:
    for bucket, total in enumerate(totals):
        if not total:
            continue
        left, right = scale.bucket(bucket)
        told = [scale.axis.bucket_text(bucket)]
        told += [f"{one.name}: {unit.text(one.values[bucket] or 0)}" for one in series if one.values[bucket]]
        yield f"<g><title>{escape(chr(10).join(told))}</title>"
        below = 0.0
        for one in series:
            value = one.values[bucket] or 0
            if value:
                top, bottom = scale.y(below + value), scale.y(below)
                height = max(bottom - top, 0.5)
                yield (
                    f'<rect class="{one.style}" x="{left:.2f}" y="{bottom - height:.2f}" width="{right - left:.2f}" '
                    f'height="{height:.2f}"/>'
                )
                below += value
        yield "</g>"


def _line(scale: _Scale, series: Series, unit: Unit) -> Iterator[str]:
    """Broken where values are missing; dots where there are few enough to tell them apart, or else nothing to join."""
    points = [
        (bucket, sum(scale.bucket(bucket)) / 2, scale.y(value), value)
        for bucket, value in enumerate(series.values)
        if value is not None
    ]
    path = "".join(
        f"{'L' if number and points[number - 1][0] == bucket - 1 else 'M'}{x:.2f} {y:.2f}"
        for number, (bucket, x, y, _) in enumerate(points)
    )
    yield f'<path class="{series.style} line" d="{path}"/>'
    is_sparse = len(points) <= _MOST_DOTS
    for bucket, x, y, value in points:
        told = escape(f"{scale.axis.bucket_text(bucket)}\n{series.name}: {unit.text(value)}")
        radius = 2.2 if is_sparse else 0.9
        yield f'<circle class="{series.style}" cx="{x:.2f}" cy="{y:.2f}" r="{radius}"><title>{told}</title></circle>'
