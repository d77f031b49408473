"""How a segment leaves the store: from the first step on nothing of it is readable, and no copy of it can complete.

Which calls may do so at the same time is the caller's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest_slot import ManifestSlot


@dataclass(frozen=True, slots=True)
class SegmentRemoval:
    """Everything of one segment in one store."""

    slot: ManifestSlot
    keys: SegmentKeys

    def remove(self) -> None:
        """Complete or half copied; absent is fine, and leaves nothing behind."""
        if self._has_traces():
            self.slot.bury()
            self._remove_data()

    def abort(self) -> bool:
        """The same, unless the segment is complete: then True."""
        if self._has_traces():
            if not self.slot.bury_unless_complete():
                return True
            self._remove_data()
        return False

    def _has_traces(self) -> bool:
        # In this order: a copy that takes its descriptor away while the listing runs has put its manifest before.
        store = self.slot.store
        return (
            next(store.list(self.keys.root), None) is not None
            or next(store.list_partials(self.keys.root), None) is not None
            or not self.slot.is_empty()
        )

    def _remove_data(self) -> None:
        store = self.slot.store
        # Partial uploads first: one that somebody is about to commit would come back behind the listing of objects.
        for partial in store.list_partials(self.keys.root):
            store.end_partial(partial.key, partial.handle)
        store.delete_many(stored.key for stored in store.list(self.keys.root) if stored.key != self.keys.manifest)
