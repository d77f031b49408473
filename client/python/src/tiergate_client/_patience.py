"""How long the client goes on trying when a plane is out of reach or busy: until nothing has moved for a while."""

from __future__ import annotations

import random
import time

from tiergate_client.errors import Exhausted, TiergateError, Unavailable

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Patience:
    """Pauses between attempts, longer each time, until `timeout_s` have passed since the last progress.

    With `until`, a time of the monotonic clock, a server that says how long to wait for a limit is obeyed until then.
    """

    def __init__(self, timeout_s: float, *, until: float | None = None) -> None:
        self._timeout_s = timeout_s
        self._until = until
        self.progressed()

    def progressed(self) -> None:
        self._deadline = time.monotonic() + self._timeout_s
        self._pause_s = _FIRST_PAUSE_S

    @property
    def remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    def pause(self, failure: TiergateError) -> bool:
        """Waits before the next attempt, as long as the failure asks for; False when there is no time for another."""
        hinted_s = (failure.retry_after_ms or 0) / 1000
        wait_s = max(hinted_s, self._pause_s * random.uniform(0.5, 1))  # noqa: S311 (jitter, no secret)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        if self._until is not None and isinstance(failure, Exhausted) and time.monotonic() + wait_s < self._until:
            self._deadline = max(self._deadline, time.monotonic() + wait_s + self._timeout_s)
        if wait_s >= self.remaining_s:
            return False
        time.sleep(wait_s)
        return True


def may_pass(failure: TiergateError) -> bool:
    """Whether the same call may succeed a little later."""
    return isinstance(failure, Unavailable) or (isinstance(failure, Exhausted) and failure.retry_after_ms is not None)
