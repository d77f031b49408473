"""Who watches the metadata, and what each one has still to be told. Used from the event loop only.

A watcher that does not keep up is ended rather than let grow: it lists again and goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from tiergate_client.errors import LimitExceeded, NotHosted, TiergateError, Unavailable
from tiergate_client.values import MetadataChange

_LONGEST_BACKLOG = 10_000


@dataclass(eq=False, slots=True)
class Watcher:
    """One watcher's backlog: changes in the order in which they were applied."""

    homes: frozenset[int]
    _backlog: list[MetadataChange] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _end: TiergateError | None = None

    def push(self, changes: Iterable[MetadataChange]) -> None:
        self._backlog.extend(changes)
        if len(self._backlog) > _LONGEST_BACKLOG:
            self.end(
                LimitExceeded.of(
                    "watch_backlog",
                    _LONGEST_BACKLOG,
                    f"the watcher is more than {_LONGEST_BACKLOG} changes behind; list again and watch from there",
                )
            )
        self._arrived.set()

    def end(self, why: TiergateError) -> None:
        self._end = why
        self._backlog.clear()
        self._arrived.set()

    async def take(self, *, timeout_s: float) -> list[MetadataChange]:
        """What has come, in order; empty when nothing came in time. Raises why it was ended."""
        if not self._backlog and self._end is None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        if self._end is not None:
            raise self._end
        self._arrived.clear()
        taken, self._backlog = self._backlog, []
        return taken


class Watches:
    """All watchers of a replica."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    def __bool__(self) -> bool:
        """Whether anyone watches at all."""
        return bool(self._watchers)

    def add(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)

    def discard(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def changed(self, metadata_partition: int, change: MetadataChange) -> None:
        for watcher in self._watchers:
            if metadata_partition in watcher.homes:
                watcher.push((change,))

    def end_all(self, why: str) -> None:
        """A watch has no end of its own: a replica that stops would wait for it."""
        for watcher in self._watchers:
            watcher.end(Unavailable(f"{why}; watch another replica"))

    def lost(self, metadata_partition: int) -> None:
        """The partition is not followed any more: its watchers would miss what comes."""
        for watcher in self._watchers:
            if metadata_partition in watcher.homes:
                watcher.end(
                    NotHosted(f"this replica stopped hosting metadata partition {metadata_partition}; watch another")
                )
