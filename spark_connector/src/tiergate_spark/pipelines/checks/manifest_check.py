"""Checks what a segment's manifest and its leader-epoch index say against its metadata; the log is not looked at."""

from __future__ import annotations

from collections.abc import Iterator

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.records.lineage import is_lineage_of
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.finding import MANIFEST, Findings, Kind


def check_manifest(segment: RemoteLogSegmentMetadata, manifest: SegmentManifest, findings: Findings) -> None:
    """State, event time, broker and custom metadata change in a segment's life; all else is fixed with its bytes."""
    for name, stored, known in _facts(segment, manifest):
        if stored != known:
            findings.add(
                Kind.MANIFEST_DIFFERS,
                f"the {name} is {stored} in the manifest and {known} in the metadata",
                file=MANIFEST,
            )


def _facts(segment: RemoteLogSegmentMetadata, manifest: SegmentManifest) -> Iterator[tuple[str, object, object]]:
    stored = manifest.metadata
    yield "partition", stored.partition, segment.partition
    yield "segment id", stored.segment_id, segment.segment_id
    yield "start offset", stored.start_offset, segment.start_offset
    yield "end offset", stored.end_offset, segment.end_offset
    yield "map of leader epochs", _text(stored.segment_leader_epochs), _text(segment.segment_leader_epochs)
    yield "size of the log", manifest.log.size_bytes, segment.segment_size_bytes
    yield "latest timestamp", stored.max_timestamp_ms, segment.max_timestamp_ms
    yield "emptiness of the transaction index", stored.txn_index_empty, segment.txn_index_empty


def check_leader_epoch_index(segment: RemoteLogSegmentMetadata, index: LeaderEpochs, findings: Findings) -> None:
    """Both must say the same about the segment's offsets, from where the index begins: the log's front may be gone."""
    if not is_lineage_of(index, segment):
        told, known = (
            _text(epochs)
            for epochs in (index.within(segment.start_offset, segment.end_offset), segment.segment_leader_epochs)
        )
        findings.add(
            Kind.LEADER_EPOCH_INDEX,
            f"at the segment's offsets its epochs are {told}, those of the metadata {known}",
            file=SegmentFile.LEADER_EPOCH.value,
            offset=segment.start_offset,
        )


def _text(epochs: LeaderEpochs) -> str:
    return ", ".join(f"{epoch} from {start}" for epoch, start in epochs) or "none"
