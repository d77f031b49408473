"""Metadata events as the JSON that `tests/oracle` speaks: all their fields, ids and bytes in hex, states as numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

from tiergate_client.values import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, TopicIdPartition
from tiergate_server.metadata.event_codec import MetadataEvent

Json: TypeAlias = dict[str, Any]


def partition_json(partition: TopicIdPartition) -> Json:
    return {"topic": partition.topic, "topic_id": partition.topic_id.raw.hex(), "partition": partition.partition}


def event_json(event: MetadataEvent) -> Json:
    shared = {
        **partition_json(event.partition),
        "broker_id": event.broker_id,
        "event_timestamp_ms": event.event_timestamp_ms,
        "state": event.state.value,
    }
    if isinstance(event, RemoteLogSegmentMetadata):
        return {"type": "segment", **shared, **_segment_fields(event)}
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return {"type": "update", **shared, **_copy_fields(event)}
    return {"type": "partition_delete", **shared}


def _segment_fields(segment: RemoteLogSegmentMetadata) -> Json:
    return {
        **_copy_fields(segment),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "segment_size_bytes": segment.segment_size_bytes,
        "txn_index_empty": segment.txn_index_empty,
        "segment_leader_epochs": [list(entry) for entry in segment.segment_leader_epochs],
    }


def _copy_fields(event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Json:
    custom = event.custom_metadata
    return {"segment_id": event.segment_id.raw.hex(), "custom_metadata": None if custom is None else custom.hex()}
