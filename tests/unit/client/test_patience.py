from __future__ import annotations

import time

from tiergate_client._patience import Patience
from tiergate_client.errors import LimitExceeded, Unavailable


def limit(retry_after_ms: int) -> LimitExceeded:
    return LimitExceeded.of("fetch_bytes_per_second", 1, "the quota is used up", retry_after_ms=retry_after_ms)


def test_server_that_says_how_long_to_wait_is_obeyed_beyond_the_patience() -> None:
    patience = Patience(0.05, until=time.monotonic() + 60)
    assert all(patience.pause(limit(60)) for _ in range(3))


def test_wait_that_would_end_too_late_is_not_begun() -> None:
    patience = Patience(0.05, until=time.monotonic() + 0.5)
    began = time.monotonic()
    assert not patience.pause(limit(10_000))
    assert time.monotonic() - began < 5


def test_server_that_is_away_is_waited_for_no_longer_than_the_patience() -> None:
    patience = Patience(0.05, until=time.monotonic() + 60)
    assert not patience.pause(Unavailable("away", retry_after_ms=60))
