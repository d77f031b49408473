"""The wall clock, in the unit that is stored everywhere. Who needs the time takes a `Clock`: tests hold it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds since 1970."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000
