"""Waiting for a condition that nothing announces."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    """Returns as soon as the condition holds; fails the test when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.002)
