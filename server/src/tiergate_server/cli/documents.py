"""The JSON form of what commands answer. Field names are those of the wire; they only ever grow."""

from __future__ import annotations

from typing import Any

from tiergate_client.errors import TiergateError
from tiergate_client.segment_files import SegmentManifest
from tiergate_client.values import PartitionSummary, RemoteLogSegmentMetadata
from tiergate_server.segments.custom_metadata import CustomMetadataV1


def segment_document(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    custom = metadata.custom_metadata
    return {
        "segment_id": str(metadata.segment_id),
        "topic": metadata.partition.topic,
        "topic_id": str(metadata.partition.topic_id),
        "partition": metadata.partition.partition,
        "state": metadata.state.name,
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "segment_size_bytes": metadata.segment_size_bytes,
        "max_timestamp_ms": metadata.max_timestamp_ms,
        "segment_leader_epochs": [
            {"leader_epoch": epoch, "start_offset": start} for epoch, start in metadata.segment_leader_epochs
        ],
        "txn_index_empty": metadata.txn_index_empty,
        "broker_id": metadata.broker_id,
        "event_timestamp_ms": metadata.event_timestamp_ms,
        "custom_metadata_hex": None if custom is None else custom.hex(),
    }


def stored_segment_document(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    """The same with the store that holds it."""
    return segment_document(metadata) | {"store": store_name(metadata)}


def store_name(metadata: RemoteLogSegmentMetadata) -> str | None:
    """Which of the server's stores holds the segment; None when its custom metadata does not tell."""
    if metadata.custom_metadata is None:
        return None
    try:
        return CustomMetadataV1.from_bytes(metadata.custom_metadata).store_name
    except TiergateError:
        return None


def manifest_document(manifest: SegmentManifest) -> dict[str, Any]:
    return {
        "upload_digest": manifest.upload_digest,
        "files": {
            file.value: {"size_bytes": checksum.size_bytes, "crc32c": f"{checksum.crc32c:08x}"}
            for file, checksum in manifest.files.items()
        },
        "log_block_count": len(manifest.log_block_crc32c),
    }


def partition_document(summary: PartitionSummary) -> dict[str, Any]:
    return {
        "topic": summary.partition.topic,
        "topic_id": str(summary.partition.topic_id),
        "partition": summary.partition.partition,
        "segment_count": summary.segment_count,
        "finished_segment_count": summary.finished_segment_count,
        "finished_size_bytes": summary.finished_size_bytes,
        "start_offset": summary.start_offset,
        "end_offset": summary.end_offset,
        "ready": summary.ready,
    }
