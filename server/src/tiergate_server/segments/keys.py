"""Where the objects of a segment lie in the store. Kept for ever, so the layout never changes.

    key      = [ prefix "/" ] topic-id "_" partition "/" segment-id "/" rest
    rest     = "manifest.json"
             | upload-digest "/" file                          log, offset_index, time_index, ...
             | upload-digest "/upload-" token ".json"          only while an upload is under way

for example `tiered/AAAAAAAAAAAAAAAAAAAAAQ_7/AAAAAAAAAAAAAAAAAAAAAg/000102030405060708090a0b0c0d0e0f/log`. Ids are in
Kafka's text form, which never begins with a dot. What the objects hold is said elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of one segment, all below `root`."""

    root: str

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata, *, prefix: str = "") -> SegmentKeys:
        partition = metadata.partition
        below = f"{partition.topic_id}_{partition.partition}/{metadata.segment_id}"
        return cls(f"{prefix}/{below}" if prefix else below)

    @property
    def manifest(self) -> str:
        return f"{self.root}/manifest.json"

    def file(self, upload_digest: str, file: SegmentFile) -> str:
        return f"{self.root}/{upload_digest}/{file.value}"

    def upload_marker(self, upload_digest: str, token: str) -> str:
        return f"{self.root}/{upload_digest}/upload-{token}.json"
