"""The marker at a store's root: which metadata log its segments belong to. Housekeeping trusts no store without it.

    tiergate.json = framed JSON: version, log_id, rebuilding

for example `{"crc32c":"28a5df22","version":1,"log_id":"AAAAAAAAAAAAAAAAAAAAAw","rebuilding":false}`.
`rebuilding` is true while the log is being rebuilt from the store, and knows less than the store holds. Who may bind a
store to which log is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.errors import InvalidField, NotOffered, StorageUnavailable, StoredDataCorrupt
from tiergate_client.ids import LogId
from tiergate_server.segments.framed_json import BrokenFrame, frame, unframe
from tiergate_server.segments.object_store import ObjectNotFound, ObjectStore
from tiergate_server.segments.store_layout import MARKER_KEY

VERSION = 1

# Each round is lost only to somebody who binds the same store in the same instant.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class StoreMarkerV1:
    """The log that a store is bound to."""

    log_id: LogId
    is_rebuilding: bool = False

    def to_bytes(self) -> bytes:
        return frame({"version": VERSION, "log_id": str(self.log_id), "rebuilding": self.is_rebuilding})

    @classmethod
    def from_bytes(cls, data: bytes) -> StoreMarkerV1:
        """Raises StoredDataCorrupt, and NotOffered for a newer version."""
        try:
            fields = unframe(data)
            version = int(fields["version"])
            if version <= VERSION:
                return cls(LogId.from_text(fields["log_id"]), bool(fields["rebuilding"]))
        except (BrokenFrame, KeyError, TypeError, ValueError, InvalidField) as damage:
            raise StoredDataCorrupt(
                f"the store's marker {MARKER_KEY} is corrupt ({damage}); delete it, then bind the store with "
                "`tiergate gc --bind`",
                details={"file": MARKER_KEY},
            ) from None
        raise NotOffered(
            f"the store's marker {MARKER_KEY} has version {version}, of a newer release; this one reads {VERSION}: "
            "upgrade it"
        )


def read_marker(store: ObjectStore) -> StoreMarkerV1 | None:
    """None: the store is not bound. Raises StoredDataCorrupt, NotOffered."""
    try:
        return StoreMarkerV1.from_bytes(store.get(MARKER_KEY))
    except ObjectNotFound:
        return None


def bind(store: ObjectStore, marker: StoreMarkerV1) -> bool:
    """Binds a store that is not bound. False: it is, maybe by this very call, whose first answer was lost."""
    return store.put_if_absent(MARKER_KEY, marker.to_bytes())


def rebind(store: ObjectStore, marker: StoreMarkerV1) -> None:
    """Binds a store, whatever it was bound to; cut off in the middle, it leaves the store unbound."""
    for _ in range(_ROUNDS):
        if bind(store, marker) or read_marker(store) == marker:
            return
        store.delete(MARKER_KEY)
    raise StorageUnavailable(
        f"the marker {MARKER_KEY} could not be replaced, since others do so, too: try again", retry_after_ms=100
    )
