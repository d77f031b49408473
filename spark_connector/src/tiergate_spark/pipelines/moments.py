"""Moments as a person types them: 2026-11-16, 2026-11-16T09:30:00Z, or milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime

import typer


def parse_moment(text: str | None, *, option: str) -> int | None:
    """In milliseconds since the epoch; without a zone it is UTC. Raises BadParameter that names the option."""
    if text is None:
        return None
    stripped = text.strip()
    if stripped.isdecimal() and len(stripped) != len("20261116"):  # such a one is a day
        return int(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write it like 2026-11-16T09:30:00Z, 2026-11-16 or as milliseconds since the epoch",
            param_hint=option,
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
