"""Moments as a person types them: 2026-11-16, 2026-11-16T09:30:00Z, or milliseconds since the epoch.

How a command line complains about others is not decided here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MILLISECONDS = re.compile(r"\d{1,18}")


def parse_moment(text: str) -> int:
    """In milliseconds since the epoch; without a zone it is UTC. Raises ValueError with a sentence for that person."""
    stripped = text.strip()
    if _MILLISECONDS.fullmatch(stripped) and not _is_date(stripped):
        return int(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write it like 2026-11-16T09:30:00Z, 2026-11-16 or as milliseconds since the epoch"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = (moment - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970, and no record is")
    return round(milliseconds)


def _is_date(digits: str) -> bool:
    """20261116 is a day: as milliseconds it would be five hours into 1970."""
    try:
        return len(digits) == len("20261116") and bool(datetime.fromisoformat(digits))
    except ValueError:
        return False
