"""All stores as one RemoteStorage for those who only read: each segment from where it is. Writing is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NoReturn

from tiergate_client.errors import Cancelled, NotOffered, TiergateError
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadProgress, UploadSummary
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_client.verification import VerificationProgress
from tiergate_server.segments.volumes import SegmentVolumes


class VolumeReads(RemoteStorage):
    """For one call: when it `is_wanted` no longer, reading ends with Cancelled, also where nothing is sent for long."""

    def __init__(self, volumes: SegmentVolumes, *, is_wanted: Callable[[], bool]) -> None:
        self._volumes = volumes
        self._is_wanted = is_wanted

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        self._require_wanted()
        stream = self._volumes.holding(metadata).fetch_segment(metadata, offset=offset, length=length)
        return SegmentStream(self._while_wanted(iter(stream)), stream.close)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        self._require_wanted()
        return self._volumes.holding(metadata).fetch_index(metadata, file)

    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        answers: list[bytes | TiergateError] = []
        for question in questions:
            try:
                answers.append(self.fetch_index(question.metadata, question.file))
            except Cancelled:
                raise
            except TiergateError as error:
                answers.append(error)
        return answers

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        return self._volumes.holding(metadata).get_manifest(metadata)

    def resolve_segment(
        self, metadata: RemoteLogSegmentMetadata, *, valid_s: int = 0, files: Collection[SegmentFile] = ()
    ) -> ResolvedSegment:
        return self._volumes.holding(metadata).resolve_segment(metadata, valid_s=valid_s, files=files)

    def verify_segment(self, metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        return self._volumes.holding(metadata).verify_segment(metadata)

    def get_upload(self, manifest: SegmentManifest) -> UploadProgress:
        return self._volumes.get_upload(manifest)

    def list_uploads(self, partition: TopicIdPartition) -> Iterator[UploadSummary]:
        return self._volumes.list_uploads(partition)

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:  # noqa: ARG002
        _refuse(metadata)

    def abort_upload(self, metadata: RemoteLogSegmentMetadata) -> bool:
        _refuse(metadata)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        _refuse(metadata)

    def _while_wanted(self, pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for piece in pieces:
            self._require_wanted()
            yield piece

    def _require_wanted(self) -> None:
        if not self._is_wanted():
            raise Cancelled("the call is over")


def _refuse(metadata: RemoteLogSegmentMetadata) -> NoReturn:
    raise NotOffered(f"segment {metadata.segment_id} can only be read here: write through the store's own volumes")
