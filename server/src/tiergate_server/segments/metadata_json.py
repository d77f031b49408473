"""A segment's metadata as a JSON object, every field of it, and back. Part of the stored manifest, so kept for ever.

Ids are in Kafka's text form, the state by its name, bytes in base64. Framing and checksums are the manifest's.
"""

from __future__ import annotations

import base64

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_server.segments.framed_json import JsonObject


def metadata_to_json(metadata: RemoteLogSegmentMetadata) -> JsonObject:
    custom = metadata.custom_metadata
    return {
        "topic": metadata.partition.topic,
        "topic_id": str(metadata.partition.topic_id),
        "partition": metadata.partition.partition,
        "segment_id": str(metadata.segment_id),
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "segment_leader_epochs": [list(entry) for entry in metadata.segment_leader_epochs],
        "segment_size_bytes": metadata.segment_size_bytes,
        "max_timestamp_ms": metadata.max_timestamp_ms,
        "broker_id": metadata.broker_id,
        "event_timestamp_ms": metadata.event_timestamp_ms,
        "custom_metadata": None if custom is None else base64.b64encode(custom).decode("ascii"),
        "state": metadata.state.name,
        "txn_index_empty": metadata.txn_index_empty,
    }


def metadata_from_json(fields: JsonObject) -> RemoteLogSegmentMetadata:
    """Raises KeyError, TypeError, ValueError or InvalidField for what `metadata_to_json` did not write."""
    custom = fields["custom_metadata"]
    return RemoteLogSegmentMetadata(
        partition=TopicIdPartition(TopicId.from_text(fields["topic_id"]), fields["partition"], fields["topic"]),
        segment_id=SegmentId.from_text(fields["segment_id"]),
        start_offset=fields["start_offset"],
        end_offset=fields["end_offset"],
        segment_leader_epochs=LeaderEpochs(tuple((epoch, start) for epoch, start in fields["segment_leader_epochs"])),
        segment_size_bytes=fields["segment_size_bytes"],
        max_timestamp_ms=fields["max_timestamp_ms"],
        broker_id=fields["broker_id"],
        event_timestamp_ms=fields["event_timestamp_ms"],
        custom_metadata=None if custom is None else base64.b64decode(custom, validate=True),
        state=SegmentState[fields["state"]],
        txn_index_empty=fields["txn_index_empty"],
    )
