"""What a snapshot holds, in lines and documents: states, not events, so each is as of the snapshot's offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import TopicIdPartition
from tiergate_server.cli.console import counted
from tiergate_server.cli.metadata_events import event_document, event_line, partition_fields
from tiergate_server.metadata.packed_segment import unpack
from tiergate_server.metadata.snapshot import PartitionSnapshot
from tiergate_server.metadata.state_content import EpochContent, PartitionContent

Described = tuple[str, dict[str, Any]]


def snapshot_entries(snapshot: PartitionSnapshot) -> Iterator[Described]:
    """What is known of the metadata partition: deletions, then each user partition's segments and epochs."""
    content = snapshot.state.content()
    for topic_id, number in sorted(content.deleted):
        yield _deleted(TopicId(topic_id), number, content.topic_names.get(topic_id))
    for delete in content.deletes:
        yield event_line(delete), event_document(delete)
    for partition in content.partitions:
        yield from _partition(partition)


def _partition(content: PartitionContent) -> Iterator[Described]:
    for raw_id, packed in zip(content.segment_ids, content.packed_segments, strict=True):
        segment = unpack(packed, partition=content.partition, raw_id=raw_id)
        yield event_line(segment), event_document(segment)
    for number, epoch in content.epochs.items():
        yield _epoch(content.partition, number, epoch)


def _epoch(partition: TopicIdPartition, number: int, epoch: EpochContent) -> Described:
    highest = "none" if epoch.highest_offset is None else epoch.highest_offset
    line = (
        f"LeaderEpoch{{{partition}, epoch {number}, highest offset {highest}, "
        f"{counted(len(epoch.reference_ids), 'finished segment')}}}"
    )
    document = partition_fields(partition) | {
        "kind": "LeaderEpoch",
        "leader_epoch": number,
        "highest_offset": epoch.highest_offset,
        "references": [
            {"offset": offset, "segment_id": str(SegmentId(raw_id))}
            for offset, raw_id in zip(epoch.reference_offsets, epoch.reference_ids, strict=True)
        ],
    }
    return line, document


def _deleted(topic_id: TopicId, number: int, topic: str | None) -> Described:
    document = {"kind": "DeletedPartition", "topic": topic, "topic_id": str(topic_id), "partition": number}
    return f"DeletedPartition{{{topic}-{number} ({topic_id})}}", document
