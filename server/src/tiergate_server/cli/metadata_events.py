"""Metadata events for people, in one line each, and for programs, with every field."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from tiergate_client.values import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from tiergate_server.cli.console import time_text
from tiergate_server.cli.documents import segment_document
from tiergate_server.cli.session import OutputFormat

MetadataEvent: TypeAlias = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What is at an offset of a metadata partition, in both forms."""

    metadata_partition: int
    offset: int
    line: str
    document: dict[str, Any]

    @classmethod
    def of(cls, metadata_partition: int, offset: int, event: MetadataEvent) -> LogEntry:
        return cls(metadata_partition, offset, event_line(event), event_document(event))

    def text(self, output: OutputFormat) -> str:
        """One line, with its end."""
        if output is OutputFormat.JSON:
            place = {"metadata_partition": self.metadata_partition, "offset": self.offset}
            return json.dumps(place | self.document) + "\n"
        return f"partition: {self.metadata_partition}, offset: {self.offset}, value: {self.line}\n"


def event_line(event: MetadataEvent) -> str:
    """Named as Kafka's own formatter of the topic names it."""
    facts = [str(event.partition)]
    if not isinstance(event, RemotePartitionDeleteMetadata):
        facts.append(f"segment {event.segment_id}")
    facts.append(event.state.name)
    if isinstance(event, RemoteLogSegmentMetadata):
        facts += _content_facts(event)
    facts.append(f"broker {event.broker_id}")
    facts.append(f"at {time_text(event.event_timestamp_ms)}")
    if not isinstance(event, RemotePartitionDeleteMetadata) and event.custom_metadata is not None:
        facts.append(f"custom metadata {event.custom_metadata.hex() or 'empty'}")
    return f"{type(event).__name__}{{{', '.join(facts)}}}"


def event_document(event: MetadataEvent) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": type(event).__name__}
    if isinstance(event, RemoteLogSegmentMetadata):
        document |= segment_document(event)
        del document["custom_metadata_hex"]
    else:
        document |= partition_fields(event.partition) | {
            "state": event.state.name,
            "broker_id": event.broker_id,
            "event_timestamp_ms": event.event_timestamp_ms,
        }
    if not isinstance(event, RemotePartitionDeleteMetadata):
        document["segment_id"] = str(event.segment_id)
        document["custom_metadata_base64"] = _base64(event.custom_metadata)
    return document


def partition_fields(partition: TopicIdPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "topic_id": str(partition.topic_id), "partition": partition.partition}


def _content_facts(segment: RemoteLogSegmentMetadata) -> list[str]:
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in segment.segment_leader_epochs)
    return [
        f"offsets {segment.start_offset}-{segment.end_offset}",
        f"epochs {epochs}",
        f"{segment.segment_size_bytes} bytes",
        f"newest record {time_text(segment.max_timestamp_ms)}",
        f"transaction index {'empty' if segment.txn_index_empty else 'possible'}",
    ]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
