from __future__ import annotations

from collections.abc import Callable

import pytest

from tiergate_client.errors import DeadlineExceeded, TiergateError, Unavailable
from tiergate_client.outages import ride_out


def failing(failures: list[TiergateError]) -> Callable[[], str]:
    """Raises them in turn, then answers."""

    def work() -> str:
        if failures:
            raise failures.pop(0)
        return "answer"

    return work


def test_plane_that_comes_back_is_asked_again_and_its_outage_told_once() -> None:
    away, still_away = Unavailable("away"), Unavailable("still away")
    told: list[Unavailable] = []
    assert ride_out(failing([away, still_away]), patience_s=60, on_outage=told.append) == "answer"
    assert told == [away]


def test_plane_that_stays_away_is_given_up() -> None:
    away: list[TiergateError] = [Unavailable(f"away {number}") for number in range(1000)]
    with pytest.raises(Unavailable, match=r"away [1-9]"):
        ride_out(failing(away), patience_s=0.2, on_outage=lambda _: None)
    assert away


def test_other_failure_is_not_repeated() -> None:
    told: list[Unavailable] = []
    failures: list[TiergateError] = [DeadlineExceeded("late")]
    with pytest.raises(DeadlineExceeded):
        ride_out(failing(failures), patience_s=60, on_outage=told.append)
    assert told == []
