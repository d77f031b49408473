"""A token bucket for bytes per second. Pure arithmetic: it neither waits nor reads a clock, and knows no threads.

What passes may be larger than the bucket: it leaves a debt, and what comes next waits until that is paid. So in any
stretch of time at most `rate * time` bytes pass, beside what the bucket held and the last piece.
"""

from __future__ import annotations

# What rounding leaves over must not count as a debt, or the wait for it might be too short to move a clock.
_ROUNDING_BYTES = 1.0


class TokenBucket:
    """Holds what one second brings, and is full at first."""

    __slots__ = ("_at_s", "_level_bytes", "rate")

    def __init__(self, bytes_per_second: float, *, now_s: float) -> None:
        self.rate = bytes_per_second
        self._level_bytes = bytes_per_second
        self._at_s = now_s

    def wait_s(self, *, now_s: float) -> float:
        """Until the next piece may pass; 0 is now."""
        self._fill(now_s)
        return 0.0 if self._level_bytes > -_ROUNDING_BYTES else -self._level_bytes / self.rate

    def take(self, size_bytes: int, *, now_s: float) -> None:
        self._fill(now_s)
        self._level_bytes -= size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Of what was taken and then not used."""
        self._level_bytes = min(self.rate, self._level_bytes + size_bytes)

    def is_full(self, *, now_s: float) -> bool:
        self._fill(now_s)
        return self._level_bytes >= self.rate

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self._level_bytes = min(self.rate, self._level_bytes + passed_s * self.rate)
        self._at_s = max(self._at_s, now_s)
