"""Binds the stores of segments to the log that this replica serves, and tells when one belongs to another.

A store that has no marker gets one; a store that is out of reach is looked at again later. Only a log that outlives its
process is worth a marker, and an empty one never takes over a store that holds segments. Nothing here refuses a call:
the markers keep housekeeping from judging a store by the wrong log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiergate_client.errors import NotOffered, StoredDataCorrupt, TiergateError
from tiergate_client.ids import LogId
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.garbage_collection import holds_segments
from tiergate_server.segments.object_store import ObjectStore, StoreRefused
from tiergate_server.segments.store_marker import StoreMarkerV1, bind, read_marker

_logger = logging.getLogger(__name__)

_AGAIN_S = 2.0
_SETTLED_S = 60.0
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ServedLog:
    """The log of a replica that has caught up with it."""

    log_id: LogId
    is_empty: bool


OpenStore = Callable[[], ObjectStore | None]
"""None: there is no such store yet. Raises StorageUnavailable."""


class StoreBinding:
    def __init__(self, open_stores: Mapping[str, OpenStore], served_log: Callable[[], ServedLog | None]) -> None:
        self._open_stores = open_stores
        self._served_log = served_log
        self._stores: dict[str, ObjectStore] = {}
        self._warnings: dict[str, str] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should look at, a sentence each."""
        return tuple(self._warnings.values())

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            log = self._served_log()
            is_settled = log is not None and await asyncio.to_thread(self.look, log)
            await asyncio.sleep(_SETTLED_S if is_settled else _AGAIN_S)

    def look(self, log: ServedLog) -> bool:
        """Blocks. False: some store could not be looked at."""
        with call_deadline(_PATIENCE_S):  # a plane that stops waits for it
            looked_at = [self._look_at(name, log) for name in self._open_stores]
        return all(looked_at)

    def _look_at(self, name: str, log: ServedLog) -> bool:
        try:
            store = self._store(name)
            if store is None:
                return False
            self._tell(name, _complaint(name, store, log))
        except (StoredDataCorrupt, NotOffered) as trouble:
            self._tell(name, f"store {name}: {trouble.message}")
        except (TiergateError, StoreRefused):
            return False  # quietly: whoever reads or writes segments says so
        return True

    def _store(self, name: str) -> ObjectStore | None:
        if name not in self._stores:
            store = self._open_stores[name]()
            if store is None:
                return None
            self._stores[name] = store
        return self._stores[name]

    def _tell(self, name: str, complaint: str | None) -> None:
        if complaint is None:
            self._warnings.pop(name, None)
        elif self._warnings.get(name) != complaint:
            self._warnings[name] = complaint
            _logger.warning("%s", complaint)


def _complaint(name: str, store: ObjectStore, log: ServedLog) -> str | None:
    marker = read_marker(store)
    if marker is None and log.is_empty and holds_segments(store):
        return (
            f"the metadata log {log.log_id} is empty and store {name} holds segments: read them back with "
            "`tiergate rebuild`, or point the metadata plane to its old log"
        )
    if marker is None:
        bind(store, StoreMarkerV1(log.log_id))
        marker = read_marker(store)
    if marker is not None and marker.log_id != log.log_id:
        return f"store {name} belongs to the metadata log {marker.log_id}, and this is {log.log_id}: check metadata.log"
    return None
