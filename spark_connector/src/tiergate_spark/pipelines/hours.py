"""The hours that a profile adds records up by, and how far they reach; how they are drawn is not known here."""

from __future__ import annotations

from typing import Final

HOUR_MS: Final = 3_600_000

END_OF_CALENDAR_MS: Final = 253_402_300_800_000
"""The year 10000, which Python and Spark do not have any more; producers may write any time."""
