"""Several stores side by side: which one takes a new segment, and which one holds a given one.

A copy's custom metadata names the store that took it, so a segment is found there whatever the configuration says about
new ones by now. Metadata without it is that of a copy that was never finished, or of a caller who does not pass it on:
then every store is asked. What is done inside a store is not decided here.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tiergate_client.errors import (
    BackendThrottled,
    InvalidField,
    NotOffered,
    SegmentNotFound,
    StorageUnavailable,
    TiergateError,
)
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadKey, UploadProgress, UploadSummary
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.segment_storage import SegmentStorage

# Soon enough for a client's few tries to be over before its deadline: then it is told why.
_UNKNOWN_STORE_RETRY_MS = 1000

# How long the other stores may take to say whether they have begun a copy, and are left alone after they did not.
_ASK_OTHERS_S = 2.0
_PASSED_OVER_S = 30.0

_logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")


class SegmentVolumes:
    """The stores by name. `store_of_topic` names the one that takes a topic's new segments."""

    def __init__(
        self,
        volumes: Mapping[str, SegmentStorage],
        *,
        store_of_topic: Callable[[str], str],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._volumes = dict(volumes)
        self._store_of_topic = store_of_topic
        self._monotonic_s = monotonic_s
        self._passed_over_until_s: dict[str, float] = {}

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
        # The likeliest first: so those that hold nothing of it need not be within reach.
        return _holder((chosen, *others), metadata) if others else chosen

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
        return any(_each(self._volumes.values(), lambda volume: volume.abort_upload(metadata)))

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """From the store that holds it; from every one when the metadata does not say which."""
        named = self._named(metadata)
        _each(self._volumes.values() if named is None else (named,), lambda volume: volume.delete_segment(metadata))

    def offers_urls(self) -> bool:
        return any(volume.offers_urls() for volume in self._volumes.values())

    def _progress(self, manifest: SegmentManifest) -> Iterator[tuple[SegmentStorage, UploadProgress]]:
        """Of the stores that do not take the topic's new segments, but may have done so when this one was begun.

        One that is out of reach is passed over, for a while without being asked: copies into the others go on. Should
        the segment lie there already, then it is stored twice, and its metadata says which one counts.
        """
        chosen = self._chosen(manifest.metadata)
        for name, volume in self._volumes.items():
            if volume is chosen or self._monotonic_s() < self._passed_over_until_s.get(name, 0.0):
                continue
            try:
                with call_deadline(_ASK_OTHERS_S):
                    progress = volume.get_upload(manifest)
            except (StorageUnavailable, BackendThrottled) as trouble:
                _logger.warning("copies go on without asking the store %s: %s", name, trouble.message)
                self._passed_over_until_s[name] = self._monotonic_s() + _PASSED_OVER_S
            else:
                yield volume, progress

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


def _holder(volumes: Sequence[SegmentStorage], metadata: RemoteLogSegmentMetadata) -> SegmentStorage:
    """The first that holds the segment, or else the first of all. Raises when one that may hold it cannot be asked."""
    out_of_reach: StorageUnavailable | BackendThrottled | None = None
    for volume in volumes:
        try:
            volume.get_manifest(metadata)
        except SegmentNotFound:
            continue
        except (StorageUnavailable, BackendThrottled) as trouble:
            out_of_reach = out_of_reach or trouble
        else:
            return volume
    if out_of_reach is not None:
        raise out_of_reach
    return volumes[0]


def _each(volumes: Iterable[SegmentStorage], act: Callable[[SegmentStorage], _Answer]) -> list[_Answer]:
    """What each answers; goes on after a failure, then raises the first one."""
    answers: list[_Answer] = []
    failures: list[TiergateError] = []
    for volume in volumes:
        try:
            answers.append(act(volume))
        except TiergateError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return answers
