"""What is better read through the service for a while, so that not every read finds it out anew. It reads nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tiergate_client._direct_answer import StoreOutOfReach
from tiergate_client.errors import TiergateError
from tiergate_client.ids import SegmentId

_logger = logging.getLogger(__name__)

_DETOUR_S = 60.0
_MOST_SEGMENTS = 1024


class Detours:
    """Safe to use from many threads: what two of them find out at once is the same."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._all_until_s = 0.0
        self._until_s: dict[SegmentId, float] = {}

    def holds(self, segment_id: SegmentId) -> bool:
        now_s = self._monotonic_s()
        return now_s < self._all_until_s or now_s < self._until_s.get(segment_id, 0.0)

    def begin(self, segment_id: SegmentId, trouble: TiergateError) -> None:
        """A store that is out of reach concerns every segment. One that gives no URLs may not be the only one."""
        until_s = self._monotonic_s() + _DETOUR_S
        if isinstance(trouble, StoreOutOfReach):
            self._all_until_s = until_s
            _logger.warning("%s; reading through the service for %d s", trouble.message, _DETOUR_S)
        else:
            if len(self._until_s) >= _MOST_SEGMENTS:
                self._until_s = {}
            self._until_s[segment_id] = until_s
