"""When a plane that died is started again. Pure arithmetic: it neither waits nor reads a clock."""

from __future__ import annotations

_FIRST_DELAY_S = 0.25
_LONGEST_DELAY_S = 5.0
_LIVED_WELL_S = 30.0


class RestartBackoff:
    """At once after the first death, then twice as late each time; a life of 30 s is a fresh start."""

    def __init__(self) -> None:
        self._deaths = 0

    def delay_s(self, *, lived_s: float) -> float:
        """How long to wait after a death, given how long the process had lived."""
        if lived_s >= _LIVED_WELL_S:
            self._deaths = 0
        self._deaths += 1
        if self._deaths == 1:
            return 0.0
        # The exponent is bounded: a plane may die for days, and 2.0**1100 overflows.
        return min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(self._deaths - 2, 16))
