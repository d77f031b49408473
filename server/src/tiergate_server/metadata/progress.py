"""How far a metadata partition has been applied, who waits for that, and what the log decided about our own events.

Used from the event loop only. It knows offsets and verdicts, not what the events say.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field

from tiergate_client.integers import INT64_MAX
from tiergate_server.metadata.verdict import Verdict


@dataclass(slots=True, order=True)
class _Waiter:
    offset: int
    done: asyncio.Future[None] = field(compare=False)


class PartitionProgress:
    """One metadata partition's progress, from 'not ready' to the end that it had when it was subscribed, and on."""

    __slots__ = ("_abandoned", "_publishing", "_verdicts", "_waiters", "applied", "corrupt_at", "ready_at")

    def __init__(self, *, applied: int, ready_at: int) -> None:
        self.applied = applied
        """Offset of the last event applied, or the one before the first."""
        self.ready_at = ready_at
        """The log's end when we subscribed: from there on answers are complete."""
        self.corrupt_at: int | None = None
        """Offset of the record that could not be read; nothing after it is applied."""
        self._abandoned = False
        self._waiters: list[_Waiter] = []
        self._publishing: list[int] = []  # what was applied when each publisher began
        self._verdicts: dict[int, Verdict] = {}

    @property
    def is_ready(self) -> bool:
        """Caught up, or as far as it will ever come."""
        return self.corrupt_at is not None or self.applied + 1 >= self.ready_at

    def advance(self, offset: int, verdict: Verdict | None) -> None:
        """The event at `offset` was applied, or skipped when there is no verdict."""
        self.applied = offset
        if self._publishing and verdict is not None:
            self._verdicts[offset] = verdict
        self._wake(offset)

    def fail(self, offset: int) -> None:
        """The event at `offset` cannot be read: nothing from there on will be applied."""
        self.corrupt_at = offset
        self._wake(INT64_MAX)

    def abandon(self) -> None:
        """Nobody follows this partition any more: whoever waits is told that it did not come."""
        self._abandoned = True
        self._wake(INT64_MAX)

    def _wake(self, offset: int) -> None:
        while self._waiters and self._waiters[0].offset <= offset:
            waiter = heapq.heappop(self._waiters)
            if not waiter.done.done():
                waiter.done.set_result(None)

    async def reach(self, offset: int, *, timeout_s: float | None) -> bool:
        """Waits until `offset` is applied; False when it was not in time, or never will be."""
        if self.applied >= offset or self.corrupt_at is not None or self._abandoned:
            return self.applied >= offset
        waiter = _Waiter(offset, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiters, waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.done
        except TimeoutError:
            return False
        finally:
            if not waiter.done.done() or waiter.done.cancelled():
                self._waiters = [other for other in self._waiters if other is not waiter]
                heapq.heapify(self._waiters)
        return self.applied >= offset

    def begin_publishing(self) -> int:
        """Keeps verdicts from now on: an event may be applied before its publisher learns its offset."""
        self._publishing.append(self.applied)
        return self.applied

    def end_publishing(self, begun_after: int) -> None:
        """The publisher that began there has its verdict; what nobody can ask for any more is forgotten."""
        self._publishing.remove(begun_after)
        needed_after = min(self._publishing, default=INT64_MAX)
        while self._verdicts and next(iter(self._verdicts)) <= needed_after:
            del self._verdicts[next(iter(self._verdicts))]

    def verdict(self, offset: int) -> Verdict | None:
        return self._verdicts.get(offset)
