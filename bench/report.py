"""How figures are told: each beside its peer's from the same run, as a table for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians over the rounds; `ratio` is the median of the rounds' own ratios, tiergate to peer."""

    subject: str
    measure: str
    better: Literal["higher", "lower"]
    tiergate: float
    peer: float | None = None
    ratio: float | None = None


def compared(
    subject: str,
    measure: str,
    better: Literal["higher", "lower"],
    *,
    tiergate: Sequence[float],
    peer: Sequence[float],
) -> Figure:
    """One figure of both, from rounds that took turns: the n-th of each ran next to each other."""
    ratios = [ours / theirs for ours, theirs in zip(tiergate, peer, strict=True) if theirs]
    return Figure(subject, measure, better, median(tiergate), median(peer), median(ratios) if ratios else None)


def show(title: str, figures: Sequence[Figure], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"benchmark": title, "figures": [asdict(figure) for figure in figures]}, indent=2))
        return
    table = Table(title=title, title_justify="left")
    table.add_column("subject")  # the one that is folded in a narrow window: numbers stay whole
    table.add_column("measure", no_wrap=True)
    for heading in ("tiergate", "peer", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("better is", no_wrap=True)
    subject = None
    for figure in figures:
        if subject not in (None, figure.subject):
            table.add_section()
        subject = figure.subject
        numbers = (figure.tiergate, figure.peer, figure.ratio)
        table.add_row(figure.subject, figure.measure, *(_number(number) for number in numbers), figure.better)
    Console().print(table)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
