"""Checks what a segment's manifest and its leader-epoch index say against its metadata; the log is not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tiergate_client.epochs import LeaderEpochs
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
    first_offset = max(segment.start_offset, index.entries[0][1] if index else segment.start_offset)
    from_index = _with_records(index.within(first_offset, segment.end_offset))
    known = _with_records(segment.segment_leader_epochs.within(first_offset, segment.end_offset))
    if first_offset > segment.end_offset or from_index != known:
        findings.add(
            Kind.LEADER_EPOCH_INDEX,
            f"its epochs from offset {first_offset} on are {_text(from_index)}, those of the metadata {_text(known)}",
            file=SegmentFile.LEADER_EPOCH.value,
            offset=first_offset,
        )


def _with_records(epochs: LeaderEpochs) -> LeaderEpochs:
    """Epochs in which nothing was written come and go with the leader that tells of them."""
    is_empty = {entry for entry, following in pairwise(epochs) if entry[1] == following[1]}
    return LeaderEpochs(tuple(entry for entry in epochs if entry not in is_empty))


def _text(epochs: LeaderEpochs) -> str:
    return ", ".join(f"{epoch} from {start}" for epoch, start in epochs) or "none"
