"""Spans of time as a person types them: 90s, 30m, 24h, 7d."""

from __future__ import annotations

import re

import typer

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(rf"(\d{{1,9}})([{''.join(_UNITS_S)}])")


def parse_duration(text: str, *, option: str) -> int:
    """In seconds. Raises BadParameter that names the option."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no span of time: write it like 90s, 30m, 24h or 7d", param_hint=option)
    return int(found[1]) * _UNITS_S[found[2]]


def duration_text(seconds: int) -> str:
    """In the largest unit that leaves no rest."""
    unit = max((unit for unit, size in _UNITS_S.items() if seconds % size == 0), key=lambda unit: _UNITS_S[unit])
    return "0s" if seconds == 0 else f"{seconds // _UNITS_S[unit]}{unit}"
