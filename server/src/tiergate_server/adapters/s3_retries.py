"""Repeats calls of S3 that failed in passing, inside the deadline of the call that asked. It knows no operation.

The SDK's own retries are off: they know nothing of a deadline, and would hold the threads of callers long gone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.segments.call_deadline import remaining_s

_Answer = TypeVar("_Answer")

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0


def with_retries(
    attempt: Callable[[], _Answer], *, max_attempts: int, before_repeat: Callable[[], None] | None = None
) -> _Answer:
    """The answer, or the last attempt's S3Failure. No wait begins that the deadline would cut off.

    Nor does another attempt behind the deadline; one that has begun ends by the SDK's own time-outs. Waits are random
    up to a bound that doubles, so that those who failed together do not come back together.
    """
    for number in range(1, max_attempts):
        try:
            return attempt()
        except S3Failure as failure:
            wait_s = _wait_s(number)
            if not failure.is_passing or _is_late(wait_s):
                raise
            time.sleep(wait_s)
            if before_repeat is not None:
                before_repeat()
            if _is_late(0):
                raise
    return attempt()


def comes_true(claim: Callable[[], bool], *, max_looks: int) -> bool:
    """Whether it holds, at once or at a later look. No wait begins that the deadline would cut off."""
    for number in range(1, max_looks):
        if claim():
            return True
        wait_s = _wait_s(number)
        if _is_late(wait_s):
            return False
        time.sleep(wait_s)
    return claim()


def _wait_s(number: int) -> float:
    return random.uniform(0, min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (number - 1)))  # noqa: S311


def _is_late(wait_s: float) -> bool:
    remaining = remaining_s()
    return remaining is not None and remaining <= wait_s
