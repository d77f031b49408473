"""How long the work behind a call may take."""

from __future__ import annotations

LONGEST_CALL_S = 120.0
# What is left for the answer to travel, so that it comes before the caller gives up.
_ANSWER_SHARE = 0.1


def work_seconds(remaining_s: float | None) -> float:
    """Of the time that the caller still waits, what the server may use; bounded when the caller set no deadline."""
    if remaining_s is None or remaining_s > LONGEST_CALL_S:
        return LONGEST_CALL_S
    return max(0.0, remaining_s * (1 - _ANSWER_SHARE))
