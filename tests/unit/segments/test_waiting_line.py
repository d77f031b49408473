"""The line before a token bucket, against a model that counts in whole bytes and eighths of a second."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

from tiergate_server.segments.token_bucket import TokenBucket
from tiergate_server.segments.waiting_line import Turn, WaitingLine

TICKS_PER_SECOND = 8
PIECES = st.integers(1, 5000)


@dataclass
class LineModel:
    """`bytes_per_tick` is what a bucket gets in an eighth of a second, so that nothing is ever rounded."""

    bytes_per_tick: int
    ticks: int = 0
    level: int = field(init=False)
    waiting: list[tuple[Turn, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.level = self.bytes_per_tick * TICKS_PER_SECOND

    @property
    def now_s(self) -> float:
        return self.ticks / TICKS_PER_SECOND

    def pass_time(self, ticks: int) -> None:
        self.ticks += ticks
        self.level = min(self.bytes_per_tick * TICKS_PER_SECOND, self.level + ticks * self.bytes_per_tick)

    def advance(self, turn: Turn) -> float:
        """As the line's: 0 and it has passed, or the wait."""
        place = [waiting for waiting, _ in self.waiting].index(turn)
        wait_bytes = max(0, -self.level) + sum(size for _, size in self.waiting[:place])
        if wait_bytes == 0:
            self.level -= self.waiting.pop(place)[1]
        return wait_bytes / (self.bytes_per_tick * TICKS_PER_SECOND)


class LineMachine(RuleBasedStateMachine):
    turns: Bundle[Turn] = Bundle("turns")

    @initialize(bytes_per_tick=st.integers(1, 500))
    def open(self, bytes_per_tick: int) -> None:
        self.model = LineModel(bytes_per_tick)
        self.line = WaitingLine(TokenBucket(bytes_per_tick * TICKS_PER_SECOND, now_s=0.0))

    @rule(target=turns, size=PIECES)
    def join(self, size: int) -> Turn:
        turn = self.line.join(size)
        self.model.waiting.append((turn, size))
        return turn

    @rule(turn=turns)
    def advance(self, turn: Turn) -> None:
        if turn in dict(self.model.waiting):
            expected_s = self.model.advance(turn)
            assert abs(self.line.advance(turn, now_s=self.model.now_s) - expected_s) < 1e-9 * (1 + expected_s)

    @rule(turn=consumes(turns))
    def leave(self, turn: Turn) -> None:
        self.line.leave(turn)
        self.model.waiting = [(waiting, size) for waiting, size in self.model.waiting if waiting is not turn]

    @rule(ticks=st.integers(0, 40))
    def pass_time(self, ticks: int) -> None:
        self.model.pass_time(ticks)

    @rule(size=PIECES)
    def give_back(self, size: int) -> None:
        self.line.give_back(size)
        self.model.level = min(self.model.bytes_per_tick * TICKS_PER_SECOND, self.model.level + size)

    @rule()
    def forget(self) -> None:
        full = self.model.bytes_per_tick * TICKS_PER_SECOND
        is_new = not self.model.waiting and self.model.level == full
        assert self.line.is_forgettable(now_s=self.model.now_s) == is_new


TestLine = LineMachine.TestCase


@given(rate=st.integers(1, 10**9), sizes=st.lists(st.integers(1, 2**21), min_size=1, max_size=30))
def test_waiting_as_told_is_enough_whatever_the_rounding(rate: int, sizes: list[int]) -> None:
    line, now_s = WaitingLine(TokenBucket(rate, now_s=12345.678)), 12345.678
    for size in sizes:
        turn = line.join(size)
        wait_s = line.advance(turn, now_s=now_s)
        if wait_s:
            now_s += wait_s
            assert line.advance(turn, now_s=now_s) == 0


@given(
    streams=st.integers(2, 10),
    visits=st.lists(st.tuples(st.integers(0, 9), st.floats(0, 2)), min_size=20, max_size=80),
)
def test_streams_that_join_anew_for_each_piece_share_alike_however_often_one_asks(
    streams: int, visits: list[tuple[int, float]]
) -> None:
    line, now_s = WaitingLine(TokenBucket(1000, now_s=0.0)), 0.0
    turns = [line.join(700) for _ in range(streams)]
    passed = [0] * streams
    for visitor, seconds in visits:
        now_s += seconds
        for stream in (visitor % streams, *range(streams)):
            if not line.advance(turns[stream], now_s=now_s):
                passed[stream] += 1
                turns[stream] = line.join(700)
        assert max(passed) - min(passed) <= 1
