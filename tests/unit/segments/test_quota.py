"""Quotas in total and per topic: how much passes, who waits for whom, and how a wait ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import wait_until
from tiergate_client.errors import Cancelled, LimitExceeded
from tiergate_server.segments import quota as quota_module
from tiergate_server.segments.quota import Quota, Rates

TOPICS = ("orders", "payments", "clicks")


class HandMovedClock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


def new_quota(clock: HandMovedClock, rates: Rates, **options: Any) -> Quota:
    return Quota("fetch", rates, monotonic_s=clock.monotonic_s, sleep=clock.sleep, **options)


def wanted() -> bool:
    return True


rate = st.one_of(st.just(0), st.integers(100, 10_000))
pieces = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 3000)), min_size=1, max_size=40)


@given(
    rates=st.builds(
        Rates, total=rate, each_topic=rate, of_topic=st.dictionaries(st.sampled_from(TOPICS), rate, max_size=2)
    ),
    pieces=pieces,
    shares=st.integers(1, 4),
)
def test_no_stretch_of_time_passes_more_than_each_limit_and_nobody_waits_for_nothing(
    rates: Rates, pieces: list[tuple[str, int]], shares: int
) -> None:
    clock = HandMovedClock()
    quota = new_quota(clock, rates, shares=shares)
    passed: list[tuple[float, float, str, int]] = []
    for topic, size in pieces:
        began_s = clock.now_s
        quota.take(topic, size, is_wanted=wanted)
        if size:
            passed.append((began_s, clock.now_s, topic, size))
    needed_s = 0.0
    if rates.total:
        needed_s += check_rate([(at_s, at_s, size) for _, at_s, _, size in passed], rates.total / shares)
    for topic in TOPICS:
        if limit := rates.of_topic.get(topic, rates.each_topic):
            # A piece is on its topic's account while it waits for the total, so its stretch begins before that wait.
            counted = [(began_s, at_s, size) for began_s, at_s, of_topic, size in passed if of_topic == topic]
            needed_s += check_rate(counted, limit / shares)
    assert clock.now_s - 1000.0 <= needed_s + 0.01


def check_rate(passed: list[tuple[float, float, int]], bytes_per_second: float) -> float:
    """Checks every stretch that begins and ends with a piece; returns how long the limit alone makes them take."""
    for first in range(len(passed)):
        total = 0
        for _, at_s, size in passed[first:]:
            assert total <= bytes_per_second * (1 + at_s - passed[first][0]) + 1.01, "but for rounding to bytes"
            total += size
    return sum(size for _, _, size in passed) / bytes_per_second


def test_piece_over_the_quota_waits_the_longest_time_and_is_told_how_long_is_left() -> None:
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(total=1000), longest_wait_s=1.0)
    quota.take("orders", 6000, is_wanted=wanted)
    began_s = clock.now_s
    with pytest.raises(LimitExceeded) as refusal:
        quota.take("orders", 10, is_wanted=wanted)
    assert clock.now_s - began_s == pytest.approx(1.0)
    assert refusal.value.details == {"limit": "fetch_bytes_per_second", "value": "1000"}
    assert refusal.value.retry_after_ms is not None
    assert refusal.value.retry_after_ms == pytest.approx(4000, abs=2)
    clock.sleep(refusal.value.retry_after_ms / 1000)
    before_s = clock.now_s
    quota.take("orders", 10, is_wanted=wanted)
    assert clock.now_s == before_s, "as told"


@pytest.mark.parametrize(
    ("rates", "limit", "value"),
    [
        (Rates(each_topic=1000), "topic_fetch_bytes_per_second", "1000"),
        (Rates(each_topic=5, of_topic={"orders": 1000}), "topic_fetch_bytes_per_second.orders", "1000"),
    ],
)
def test_topic_over_its_quota_does_not_stand_in_the_way_of_another(rates: Rates, limit: str, value: str) -> None:
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(total=10**6, each_topic=rates.each_topic, of_topic=rates.of_topic), longest_wait_s=1)
    quota.take("orders", 5000, is_wanted=wanted)
    with pytest.raises(LimitExceeded) as refusal:
        quota.take("orders", 1, is_wanted=wanted)
    assert refusal.value.details == {"limit": limit, "value": value}
    before_s = clock.now_s
    quota.take("payments", 1, is_wanted=wanted)
    assert clock.now_s == before_s


def test_override_of_zero_is_no_limit_for_that_topic() -> None:
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(each_topic=1, of_topic={"orders": 0}))
    for _ in range(10):
        quota.take("orders", 10**9, is_wanted=wanted)
    assert clock.now_s == 1000.0


def test_refused_piece_costs_nobody_anything() -> None:
    """Refused by the total, it gives back what its topic had let pass."""
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(total=1000, each_topic=1000), longest_wait_s=0.5)
    quota.take("payments", 10_000, is_wanted=wanted)
    with pytest.raises(LimitExceeded) as refusal:
        quota.take("orders", 50_000, is_wanted=wanted)
    assert refusal.value.details["limit"] == "fetch_bytes_per_second"
    clock.sleep(20)
    before_s = clock.now_s
    quota.take("orders", 10, is_wanted=wanted)
    assert clock.now_s == before_s


def test_shares_divide_the_rate_and_the_refusal_names_the_whole() -> None:
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(total=1000), shares=4, longest_wait_s=1)
    quota.take("orders", 1250, is_wanted=wanted)
    with pytest.raises(LimitExceeded) as refusal:
        quota.take("orders", 1, is_wanted=wanted)
    assert refusal.value.details["value"] == "1000"
    assert refusal.value.retry_after_ms == pytest.approx(3000, abs=2), "1000 bytes at 250 a second, 1 s of which passed"
    assert quota.limits() == {"fetch_bytes_per_second": 1000}


def test_limits_are_published_by_the_names_under_which_they_refuse() -> None:
    rates = Rates(each_topic=7, of_topic={"orders": 9, "clicks": 0})
    assert new_quota(HandMovedClock(), rates).limits() == {
        "topic_fetch_bytes_per_second": 7,
        "topic_fetch_bytes_per_second.orders": 9,
    }


def test_topics_made_up_by_clients_are_forgotten_when_they_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_module, "_REMEMBERED_TOPICS", 10)
    clock = HandMovedClock()
    quota = new_quota(clock, Rates(each_topic=1000), longest_wait_s=0.1)
    quota.take("busy", 10**6, is_wanted=wanted)
    for number in range(500):
        quota.take(f"made-up-{number}", 1, is_wanted=wanted)
        clock.sleep(0.01)
        assert len(quota._topics) <= 101 + 10, "a second's worth of them, since a bucket fills within one"
    with pytest.raises(LimitExceeded):
        quota.take("busy", 1, is_wanted=wanted)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_wait_ends_when_the_call_is_over_and_frees_its_place() -> None:
    """With real time: the one at the head of the line goes away, the next one is served."""
    quota = Quota("copy", Rates(total=1000), monotonic_s=time.monotonic, sleep=time.sleep)
    quota.take("orders", 1600, is_wanted=wanted)
    is_over = threading.Event()
    ends: list[str] = []

    def waits_for_long() -> None:
        try:
            quota.take("orders", 10**9, is_wanted=lambda: not is_over.is_set())
        except Cancelled:
            ends.append("cancelled")

    def waits_behind() -> None:
        quota.take("orders", 1, is_wanted=wanted)
        ends.append("served")

    first = in_thread(waits_for_long)
    wait_until(lambda: bool(quota._total and quota._total.line._turns))
    second = in_thread(waits_behind)
    is_over.set()
    for thread in (first, second):
        thread.join(10)
    assert ends == ["cancelled", "served"]


def test_greedy_stream_does_not_starve_the_others() -> None:
    """With real threads and real time, and one thread that takes pieces twice as large as the others."""
    quota = Quota("fetch", Rates(total=1_000_000), monotonic_s=time.monotonic, sleep=time.sleep)
    quota.take("orders", 1_000_000, is_wanted=wanted)  # what the bucket holds is whoever's comes first
    end_s = time.monotonic() + 2
    taken = [0] * 8

    def stream(number: int) -> None:
        size = 20_000 if number == 0 else 10_000
        while time.monotonic() < end_s:
            quota.take("orders", size, is_wanted=wanted)
            taken[number] += 1

    for thread in [in_thread(lambda number=number: stream(number)) for number in range(8)]:  # type: ignore[misc]
        thread.join(20)
    assert min(taken) >= 0.5 * max(taken), taken
