"""Several stores side by side: which one takes a new segment, and which one holds a given one.

A copy's custom metadata names the store that took it, so a segment is found there whatever the configuration says about
new ones by now. Metadata without it is that of a copy that was never finished, or of a caller who does not pass it on:
then every store is asked. What is done inside a store is not decided here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

from tiergate_client.errors import InvalidField, NotOffered, SegmentNotFound, StorageUnavailable, TiergateError
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadKey, UploadProgress, UploadSummary
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.segment_storage import SegmentStorage

_UNKNOWN_STORE_RETRY_MS = 10_000


class SegmentVolumes:
    """The stores by name. `store_of_topic` names the one that takes a topic's new segments."""

    def __init__(self, volumes: Mapping[str, SegmentStorage], *, store_of_topic: Callable[[str], str]) -> None:
        self._volumes = dict(volumes)
        self._store_of_topic = store_of_topic

    @classmethod
    def of(cls, only: SegmentStorage) -> SegmentVolumes:
        return cls({only.name: only}, store_of_topic=lambda _: only.name)

    def holding(self, metadata: RemoteLogSegmentMetadata) -> SegmentStorage:
        """The store to read a segment from. Raises StorageUnavailable when it is not configured here."""
        named = self._named(metadata)
        if named is not None:
            return named
        chosen = self._chosen(metadata)
        others = [volume for volume in self._volumes.values() if volume is not chosen]
        return next((volume for volume in others if _holds(volume, metadata)), chosen)

    def begin_copy(self, manifest: SegmentManifest) -> CopySession | bytes:
        """Like SegmentStorage's; goes on in the store in which the upload has begun."""
        for volume, progress in self._progress(manifest):
            if progress.custom_metadata is not None:
                return progress.custom_metadata
            if progress.committed_bytes[SegmentFile.LOG]:
                return volume.begin_copy(manifest)
        return self._chosen(manifest.metadata).begin_copy(manifest)

    def get_upload(self, manifest: SegmentManifest) -> UploadProgress:
        for _, progress in self._progress(manifest):
            if progress.custom_metadata is not None or progress.committed_bytes[SegmentFile.LOG]:
                return progress
        return self._chosen(manifest.metadata).get_upload(manifest)

    def list_uploads(self, partition: TopicIdPartition, *, after: UploadKey | None = None) -> Iterator[UploadSummary]:
        return heapq.merge(
            *(volume.list_uploads(partition, after=after) for volume in self._volumes.values()),
            key=lambda upload: (str(upload.segment_id), upload.upload_digest),
        )

    def abort_upload(self, metadata: RemoteLogSegmentMetadata) -> bool:
        are_complete = [volume.abort_upload(metadata) for volume in self._volumes.values()]  # each of them, in any case
        return any(are_complete)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """From the store that holds it; from every one when the metadata does not say which."""
        named = self._named(metadata)
        failures: list[TiergateError] = []
        for volume in self._volumes.values() if named is None else (named,):
            try:
                volume.delete_segment(metadata)
            except TiergateError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def offers_urls(self) -> bool:
        return any(volume.offers_urls() for volume in self._volumes.values())

    def _progress(self, manifest: SegmentManifest) -> Iterator[tuple[SegmentStorage, UploadProgress]]:
        """Of the stores that do not take the topic's new segments, but may have done so when this one was begun."""
        chosen = self._chosen(manifest.metadata)
        for volume in self._volumes.values():
            if volume is not chosen:
                yield volume, volume.get_upload(manifest)

    def _chosen(self, metadata: RemoteLogSegmentMetadata) -> SegmentStorage:
        return self._volumes[self._store_of_topic(metadata.partition.topic)]

    def _named(self, metadata: RemoteLogSegmentMetadata) -> SegmentStorage | None:
        if metadata.custom_metadata is None:
            return None
        try:
            name = CustomMetadataV1.from_bytes(metadata.custom_metadata).store_name
        except (InvalidField, NotOffered):  # not written by this release: it says nothing about where to look
            return None
        volume = self._volumes.get(name)
        if volume is None:
            raise StorageUnavailable(
                f"segment {metadata.segment_id} is in the store {name!r}, which is not configured here: add it to "
                f"segments.store",
                retry_after_ms=_UNKNOWN_STORE_RETRY_MS,
            )
        return volume


def _holds(volume: SegmentStorage, metadata: RemoteLogSegmentMetadata) -> bool:
    try:
        volume.get_manifest(metadata)
    except SegmentNotFound:
        return False
    return True
