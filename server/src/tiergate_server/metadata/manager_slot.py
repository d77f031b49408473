"""Where the servers find the manager: empty until there is one that can answer, and emptied when it no longer can.

A call takes the manager once and ends on the one that it began with.
"""

from __future__ import annotations

import asyncio

from tiergate_client.errors import MetadataNotReady
from tiergate_server.metadata.manager import MetadataManager

_RETRY_AFTER_MS = 250


class ManagerSlot:
    def __init__(self) -> None:
        self._manager: MetadataManager | None = None
        self._why_empty = "this replica is starting"
        self._changed = asyncio.Event()

    def get(self) -> MetadataManager:
        """The manager of this moment. Raises MetadataNotReady."""
        if self._manager is None:
            raise MetadataNotReady(
                f"{self._why_empty.rstrip(chr(46))}; try again, on any replica", retry_after_ms=_RETRY_AFTER_MS
            )
        return self._manager

    def put(self, manager: MetadataManager) -> None:
        self._manager = manager
        self._tell()

    def clear(self, why: str) -> None:
        self._manager = None
        self._why_empty = why
        self._tell()

    async def changed(self) -> None:
        """Returns when the slot was filled or emptied."""
        await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def is_filled(self) -> bool:
        return self._manager is not None
