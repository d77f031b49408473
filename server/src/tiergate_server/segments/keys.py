"""Where the objects of a segment lie in the store. Kept for ever, so the layout never changes.

    key      = topic-id "_" partition "/" segment-id "/" rest
    rest     = "manifest.json"
             | upload-digest "/" file                          log, offset_index, time_index, ...
             | upload-digest "/upload.json"                    while the upload is not complete

for example `AAAAAAAAAAAAAAAAAAAAAQ_7/AAAAAAAAAAAAAAAAAAAAAg/000102030405060708090a0b0c0d0e0f/log`. Ids are in
Kafka's text form, which never begins with a dot. What the objects hold is said elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition

MANIFEST_NAME = "manifest.json"
UPLOAD_NAME = "upload.json"


def partition_root(partition: TopicIdPartition) -> str:
    return f"{partition.topic_id}_{partition.partition}"


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of one segment, all below `root`."""

    root: str

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        return cls(f"{partition_root(metadata.partition)}/{metadata.segment_id}")

    @property
    def manifest(self) -> str:
        return f"{self.root}/{MANIFEST_NAME}"

    def file(self, upload_digest: str, file: SegmentFile) -> str:
        return f"{self.root}/{upload_digest}/{file.value}"

    def upload(self, upload_digest: str) -> str:
        return f"{self.root}/{upload_digest}/{UPLOAD_NAME}"
