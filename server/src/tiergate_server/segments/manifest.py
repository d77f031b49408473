r"""What lies at a segment's manifest key: the manifest that makes it readable, or the tombstone of a deleted one.

    segment   : version, kind "segment", upload_digest, metadata, files { name: { size_bytes, crc32c } },
                block_bytes, log_block_crc32c (base64 of big-endian u32s, one per block of the log)
    tombstone : version, kind "tombstone", segment_id, deleted_at_ms

Both are framed JSON; `version` and `kind` are the same in every version to come. A tombstone, for example:

    {"crc32c":"82a0e219","version":1,"kind":"tombstone","segment_id":"AAAAAAAAAAAAAAAAAAAAAg","deleted_at_ms":5}

Keys, and when which one is written, are not decided here.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

from tiergate_client.errors import InvalidField, NotOffered, StoredDataCorrupt
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_server.segments.framed_json import BrokenFrame, JsonObject, frame, unframe
from tiergate_server.segments.metadata_json import metadata_from_json, metadata_to_json

VERSION = 1


@dataclass(frozen=True, slots=True)
class SegmentManifestV1:
    """The stored form of a SegmentManifest."""

    content: SegmentManifest

    def to_bytes(self) -> bytes:
        return frame(self.to_json())

    def to_json(self) -> JsonObject:
        content = self.content
        blocks = content.log_block_crc32c
        files = sorted(content.files.items(), key=lambda item: item[0].value)
        return {
            "version": VERSION,
            "kind": "segment",
            "upload_digest": content.upload_digest,
            "metadata": metadata_to_json(content.metadata),
            "files": {file.value: {"size_bytes": it.size_bytes, "crc32c": it.crc32c} for file, it in files},
            "block_bytes": BLOCK_BYTES,
            "log_block_crc32c": base64.b64encode(struct.pack(f">{len(blocks)}I", *blocks)).decode("ascii"),
        }

    @classmethod
    def from_json(cls, fields: JsonObject) -> SegmentManifestV1:
        if fields["block_bytes"] != BLOCK_BYTES:
            raise ValueError(f"blocks of {fields['block_bytes']} bytes")
        blocks = base64.b64decode(fields["log_block_crc32c"], validate=True)
        content = SegmentManifest(
            metadata_from_json(fields["metadata"]),
            {SegmentFile(name): FileChecksum(it["size_bytes"], it["crc32c"]) for name, it in fields["files"].items()},
            struct.unpack(f">{len(blocks) // 4}I", blocks),
        )
        if fields["upload_digest"] != content.upload_digest:
            raise ValueError("the digest is not that of the content")
        return cls(content)


@dataclass(frozen=True, slots=True)
class TombstoneV1:
    """Keeps the manifest's key of a deleted segment taken, so that a late copy cannot commit."""

    segment_id: SegmentId
    deleted_at_ms: int

    def to_bytes(self) -> bytes:
        return frame(
            {
                "version": VERSION,
                "kind": "tombstone",
                "segment_id": str(self.segment_id),
                "deleted_at_ms": self.deleted_at_ms,
            }
        )

    @classmethod
    def from_json(cls, fields: JsonObject) -> TombstoneV1:
        return cls(SegmentId.from_text(fields["segment_id"]), fields["deleted_at_ms"])


def decode_manifest(data: bytes, segment_id: SegmentId) -> SegmentManifestV1 | TombstoneV1:
    """What `data` says about the segment.

    Raises StoredDataCorrupt for bytes that were not written by `to_bytes`, or about another segment, and NotOffered
    for a newer version.
    """
    try:
        fields = unframe(data)
    except BrokenFrame as damage:
        raise _corrupt(segment_id, str(damage)) from None
    try:
        version = int(fields["version"])
        stored = _from_json(fields) if version <= VERSION else None
    except (KeyError, TypeError, ValueError, AttributeError, struct.error, InvalidField) as error:
        raise _corrupt(segment_id, f"its content is not understood ({error})") from error
    if stored is None:
        raise NotOffered(
            f"the manifest of segment {segment_id} has version {version}, of a newer release; this one reads "
            f"{VERSION}: upgrade it"
        )
    named = stored.segment_id if isinstance(stored, TombstoneV1) else stored.content.metadata.segment_id
    if named != segment_id:
        raise _corrupt(segment_id, f"it belongs to segment {named}")
    return stored


def _from_json(fields: JsonObject) -> SegmentManifestV1 | TombstoneV1:
    if fields["kind"] == "tombstone":
        return TombstoneV1.from_json(fields)
    if fields["kind"] == "segment":
        return SegmentManifestV1.from_json(fields)
    raise ValueError(f"kind {fields['kind']!r}")


def _corrupt(segment_id: SegmentId, fact: str) -> StoredDataCorrupt:
    return StoredDataCorrupt(
        f"the stored manifest of segment {segment_id} is corrupt: {fact}; restore it, or delete the segment",
        details={"segment": str(segment_id), "file": "manifest", "position": "0"},
    )
