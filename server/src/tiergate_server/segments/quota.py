"""Bytes per second in one direction, in total and for each topic: a piece that is over the quota waits for its turn.

The topic's line comes first: a topic that is over its own quota does not stand in the way of the others. What a piece
is, and who is told how long it waited, is the caller's business.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tiergate_client.errors import Cancelled, LimitExceeded
from tiergate_server.segments.token_bucket import TokenBucket
from tiergate_server.segments.waiting_line import WaitingLine

# How soon a waiter notices that its call is over, or that those before it have left.
_LOOK_AGAIN_S = 0.1
# Topics are named by clients: the quiet ones are forgotten beyond so many.
_REMEMBERED_TOPICS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per second; 0 is no limit. `of_topic` is for the topics that it names, in place of `each_topic`."""

    total: int = 0
    each_topic: int = 0
    of_topic: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Gate:
    limit: str
    value: int
    line: WaitingLine


class Quota:
    """Safe for threads. `shares` is the number of processes over which the rates are divided.

    Without `longest_wait_s` a piece waits as long as its call is wanted.
    """

    def __init__(
        self,
        direction: str,
        rates: Rates,
        *,
        monotonic_s: Callable[[], float],
        sleep: Callable[[float], None],
        shares: int = 1,
        longest_wait_s: float | None = None,
    ) -> None:
        self._name = f"{direction}_bytes_per_second"
        self._rates = rates
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._shares = shares
        self._longest_wait_s = longest_wait_s
        self._lock = threading.Lock()
        self._total = self._gate(self._name, rates.total)
        self._topics: dict[str, _Gate] = {}
        self._is_limited = bool(self.limits())

    def limits(self) -> dict[str, int]:
        """Each limit that there is, by the name under which it refuses."""
        named = {f"topic_{self._name}.{topic}": rate for topic, rate in self._rates.of_topic.items()}
        every = {self._name: self._rates.total, f"topic_{self._name}": self._rates.each_topic} | named
        return {name: rate for name, rate in every.items() if rate}

    def take(self, topic: str, size_bytes: int, *, is_wanted: Callable[[], bool]) -> None:
        """Returns when the piece may pass. Raises LimitExceeded after the longest wait, Cancelled if not wanted."""
        if not size_bytes or not self._is_limited:
            return
        give_up_at_s = math.inf if self._longest_wait_s is None else self._monotonic_s() + self._longest_wait_s
        passed: list[_Gate] = []
        try:
            for gate in self._gates_of(topic):
                self._pass(gate, size_bytes, give_up_at_s=give_up_at_s, is_wanted=is_wanted)
                passed.append(gate)
        except (LimitExceeded, Cancelled):
            with self._lock:
                for gate in passed:
                    gate.line.give_back(size_bytes)
            raise

    def _pass(self, gate: _Gate, size_bytes: int, *, give_up_at_s: float, is_wanted: Callable[[], bool]) -> None:
        with self._lock:
            turn = gate.line.join(size_bytes)
        try:
            while True:
                now_s = self._monotonic_s()
                with self._lock:
                    wait_s = gate.line.advance(turn, now_s=now_s)
                if not wait_s:
                    return
                if not is_wanted():
                    raise Cancelled("the call was over before its turn came")
                if now_s >= give_up_at_s:
                    raise _over(gate, wait_s)
                self._sleep(min(wait_s, _LOOK_AGAIN_S, give_up_at_s - now_s))
        finally:
            with self._lock:
                gate.line.leave(turn)

    def _gates_of(self, topic: str) -> Iterator[_Gate]:
        with self._lock:
            gate = self._topics.get(topic) or self._new_topic(topic)
        if gate is not None:
            yield gate
        if self._total is not None:
            yield self._total

    def _new_topic(self, topic: str) -> _Gate | None:
        name = f"topic_{self._name}"
        if topic in self._rates.of_topic:
            gate = self._gate(f"{name}.{topic}", self._rates.of_topic[topic])
        else:
            gate = self._gate(name, self._rates.each_topic)
        if gate is not None:
            if len(self._topics) >= _REMEMBERED_TOPICS:
                self._forget_quiet_topics()
            self._topics[topic] = gate
        return gate

    def _forget_quiet_topics(self) -> None:
        now_s = self._monotonic_s()
        self._topics = {
            topic: gate for topic, gate in self._topics.items() if not gate.line.is_forgettable(now_s=now_s)
        }

    def _gate(self, limit: str, rate: int) -> _Gate | None:
        if not rate:
            return None
        bucket = TokenBucket(rate / self._shares, now_s=self._monotonic_s())
        return _Gate(limit, rate, WaitingLine(bucket))


def _over(gate: _Gate, wait_s: float) -> LimitExceeded:
    return LimitExceeded.of(
        gate.limit,
        gate.value,
        f"the quota of {gate.value} bytes per second ({gate.limit}) is used up; go on in {wait_s:.1f} s",
        retry_after_ms=math.ceil(wait_s * 1000),
    )
