"""What a partition's cache keeps of one leader epoch: its members, its references, its highest offset.

The rules are those of PartitionCache, where they are written down; which epochs a segment has is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import lt

from tiergate_server.metadata.offset_order import OffsetOrder
from tiergate_server.metadata.state_content import Contradiction, EpochContent


class CachedEpoch:
    __slots__ = ("highest", "members", "references", "size_bytes")

    def __init__(self) -> None:
        self.members = OffsetOrder()  # by the start offset of the segment
        self.size_bytes = 0  # of the members
        self.references = OffsetOrder()  # by the start offset of the epoch in the segment, each offset once
        self.highest: int | None = None

    def copy(self) -> CachedEpoch:
        copied = CachedEpoch()
        copied.members = self.members.copy()
        copied.size_bytes = self.size_bytes
        copied.references = self.references.copy()
        copied.highest = self.highest
        return copied

    def content(self) -> EpochContent:
        return EpochContent(self.highest, self.references.offsets(), list(self.references))

    def restore_references(self, content: EpochContent, findable: Mapping[bytes, int]) -> None:
        """`findable`: the finished segments that have this epoch -> its start offset in them."""
        offsets = content.reference_offsets
        if list(map(findable.get, content.reference_ids)) != list(offsets):
            raise Contradiction("a reference is to a segment that is not finished, or not at this offset")
        if not all(map(lt, offsets, offsets[1:])) or (offsets and content.highest_offset is None):
            raise Contradiction("references do not ascend, or lack the highest offset")
        self.references = OffsetOrder.of(offsets, list(content.reference_ids))
        self.highest = content.highest_offset

    def refer(self, start: int, last: int, raw_id: bytes) -> None:
        """The finished segment `raw_id` has this epoch from `start` to `last`."""
        # Kafka compares with the highest offset ever, not with the end of the reference that goes.
        while self.highest is not None and self.highest <= last and self._last_reference_is_at_least(start):
            self.references.remove_last()
        replaced = self.references.at(start)
        if replaced is not None:
            self.references.discard(start, replaced)
        self.references.add(start, raw_id)
        self.highest = last if self.highest is None else max(self.highest, last)

    def _last_reference_is_at_least(self, start: int) -> bool:
        last_offset = self.references.last_offset()
        return last_offset is not None and last_offset >= start
