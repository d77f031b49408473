"""The model of Kafka's rules without our one improvement: which segments Kafka's listings lose.

Kafka forgets to list a finished segment that another one with the same start offset of an epoch takes the place of
(KAFKA-20932); only that it is deleted makes it appear again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from support.metadata_model import PartitionModel
from tiergate_client.ids import SegmentId
from tiergate_client.values import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentState,
)
from tiergate_server.metadata.event_codec import MetadataEvent


@dataclass
class KafkaPartitionModel(PartitionModel):
    leaked: set[tuple[int, SegmentId]] = field(default_factory=set)
    """Per epoch, what Kafka knows but does not list."""

    @classmethod
    def after(cls, events: Iterable[MetadataEvent]) -> KafkaPartitionModel:
        """After the events of one partition, but for those about its deletion."""
        model = cls()
        for event in events:
            if isinstance(event, RemoteLogSegmentMetadata):
                model.add(event)
            elif not isinstance(event, RemotePartitionDeleteMetadata):
                model.update(event)
        return model

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> bool:
        applied = super().update(update)
        if applied and update.state is SegmentState.DELETE_STARTED:
            self.leaked = {(epoch, leaked) for epoch, leaked in self.leaked if leaked != update.segment_id}
        return applied

    def goes_round(self, epoch_number: int, offset: int) -> bool:
        """Whether Kafka's search for a transaction index would never end."""
        seen = set()
        found = self.lookup(epoch_number, offset)
        while found is not None and found.txn_index_empty and found.segment_id not in seen:
            seen.add(found.segment_id)
            found = self.lookup(epoch_number, found.end_offset + 1)
        return found is not None and found.segment_id in seen

    def _finish(self, metadata: RemoteLogSegmentMetadata) -> None:
        for epoch_number, start in metadata.segment_leader_epochs:
            end = self._end(metadata, epoch_number)
            epoch = self.epochs[epoch_number]
            while epoch.refs and max(epoch.refs) >= start and epoch.highest is not None and epoch.highest <= end:
                epoch.unref.add(epoch.refs.pop(max(epoch.refs)))
            replaced = epoch.refs.get(start)
            if replaced is not None:
                self.leaked.add((epoch_number, replaced))
            epoch.refs[start] = metadata.segment_id
            epoch.unref.discard(metadata.segment_id)
            self.leaked.discard((epoch_number, metadata.segment_id))
            epoch.highest = end if epoch.highest is None else max(epoch.highest, end)
