"""The line in front of a token bucket: who came first passes first. It neither waits nor reads a clock.

Whoever moves much takes a turn for each piece, and joins at the end again: so all that wait share alike.
"""

from __future__ import annotations

from itertools import takewhile

from tiergate_server.segments.token_bucket import TokenBucket


class Turn:
    """One piece, of a byte at least, that wants to pass."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


class WaitingLine:
    """Not safe for threads: its user holds a lock."""

    __slots__ = ("_bucket", "_turns")

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        self._turns: dict[Turn, None] = {}  # in the order in which they joined

    def join(self, size_bytes: int) -> Turn:
        turn = Turn(size_bytes)
        self._turns[turn] = None
        return turn

    def advance(self, turn: Turn, *, now_s: float) -> float:
        """Passes if it can, which is 0; otherwise how long it has to wait, if all before it stay."""
        ahead_bytes = sum(other.size_bytes for other in takewhile(lambda other: other is not turn, self._turns))
        wait_s = self._bucket.wait_s(now_s=now_s) + ahead_bytes / self._bucket.rate
        if not wait_s:
            self._bucket.take(turn.size_bytes, now_s=now_s)
            self.leave(turn)
        return wait_s

    def leave(self, turn: Turn) -> None:
        """One that has passed, or left before, is fine."""
        self._turns.pop(turn, None)

    def give_back(self, size_bytes: int) -> None:
        self._bucket.give_back(size_bytes)

    def is_forgettable(self, *, now_s: float) -> bool:
        """Whether a new one in its place would be the same."""
        return not self._turns and self._bucket.is_full(now_s=now_s)
