"""What every RemoteStorage must do with uploads that are not complete: keep them, show them, continue and end them.

Part of the contract of RemoteStorage, which gives `storage` and `stored`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType

import pytest

from support.segments import breaking, make_data, make_metadata, read_back
from support.waiting import wait_until
from tiergate_client.errors import SegmentConflict, SegmentNotFound
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition


class UploadContract:
    @pytest.fixture
    def broken_off(self, storage: RemoteStorage) -> Iterator[tuple[RemoteLogSegmentMetadata, LogSegmentData]]:
        """An upload whose sender broke in the middle of a large log, and of which something is kept."""
        metadata, data = make_metadata(), make_data(log_bytes=12 * BLOCK_BYTES + 5)
        manifest = data.manifest(metadata)

        def wait() -> None:
            wait_until(lambda: storage.get_upload(manifest).committed_bytes[SegmentFile.LOG] > 0)

        with pytest.raises(OSError, match="the disk broke here"):
            storage.copy_segment(metadata, breaking(data, 11 * BLOCK_BYTES, wait=wait))
        yield metadata, data
        storage.delete_segment(metadata)

    def test_upload_that_nobody_began_has_no_committed_bytes(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data()
        progress = storage.get_upload(data.manifest(metadata))
        assert progress.committed_bytes == dict.fromkeys(data.manifest(metadata).files, 0)
        assert progress.custom_metadata is None
        assert list(storage.list_uploads(metadata.partition)) == []

    def test_upload_that_is_complete_tells_what_the_copy_returned(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = stored
        manifest = data.manifest(metadata)
        progress = storage.get_upload(manifest)
        assert progress.custom_metadata == storage.copy_segment(metadata, data)
        assert progress.committed_bytes == {file: it.size_bytes for file, it in manifest.files.items()}
        assert list(storage.list_uploads(metadata.partition)) == []

    def test_upload_of_other_content_is_a_conflict(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        with pytest.raises(SegmentConflict):
            storage.get_upload(make_data(seed=1).manifest(stored[0]))

    def test_broken_upload_is_listed_and_not_readable(
        self, storage: RemoteStorage, broken_off: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = broken_off
        manifest = data.manifest(metadata)
        [upload] = storage.list_uploads(metadata.partition)
        assert (upload.segment_id, upload.upload_digest) == (metadata.segment_id, manifest.upload_digest)
        assert upload.log_size_bytes == manifest.log.size_bytes
        # A plane that has not noticed yet that its sender is gone may keep some more meanwhile.
        assert 0 < upload.log_committed_bytes <= storage.get_upload(manifest).committed_bytes[SegmentFile.LOG]
        assert upload.log_committed_bytes % BLOCK_BYTES == 0
        assert upload.log_committed_bytes <= 11 * BLOCK_BYTES
        with pytest.raises(SegmentNotFound):
            storage.fetch_segment(metadata).read()

    def test_broken_upload_is_continued_behind_what_is_kept(
        self, storage: RemoteStorage, broken_off: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = broken_off
        kept = storage.get_upload(data.manifest(metadata)).committed_bytes[SegmentFile.LOG]

        class WithoutItsBeginning(LogSegmentData):
            def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
                for chunk in super().chunks(begin_at={**begin_at, SegmentFile.LOG: kept}):
                    assert chunk.file is not SegmentFile.LOG or chunk.offset >= kept
                    yield chunk

        files = {field.name: getattr(data, field.name) for field in fields(data)}
        storage.copy_segment(metadata, WithoutItsBeginning(**files))
        assert read_back(storage, metadata) == data
        assert list(storage.list_uploads(metadata.partition)) == []

    def test_broken_upload_is_continued_by_another_beginning_at_zero(
        self, storage: RemoteStorage, broken_off: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = broken_off
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data

    def test_aborted_upload_is_gone_and_its_id_is_spent(
        self, storage: RemoteStorage, broken_off: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = broken_off
        assert storage.abort_upload(metadata) is False
        assert storage.abort_upload(metadata) is False
        assert list(storage.list_uploads(metadata.partition)) == []
        with pytest.raises(SegmentConflict):
            storage.get_upload(data.manifest(metadata))
        with pytest.raises(SegmentConflict):
            storage.copy_segment(metadata, data)

    def test_abort_of_no_upload_is_fine_and_spends_nothing(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data()
        assert storage.abort_upload(metadata) is False
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data

    def test_abort_leaves_a_complete_segment_alone(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = stored
        assert storage.abort_upload(metadata) is True
        assert read_back(storage, metadata) == data

    def test_delete_ends_a_broken_upload(
        self, storage: RemoteStorage, broken_off: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, _ = broken_off
        storage.delete_segment(metadata)
        assert list(storage.list_uploads(metadata.partition)) == []

    def test_uploads_are_listed_by_partition_in_order(self, storage: RemoteStorage) -> None:
        topic_id = TopicId.random()
        begun = [make_metadata(topic_id=topic_id, partition=partition) for partition in (0, 0, 0, 1)]

        def ids(partition: TopicIdPartition) -> list[SegmentId]:
            return [upload.segment_id for upload in storage.list_uploads(partition)]

        def wait_for(metadata: RemoteLogSegmentMetadata) -> None:
            wait_until(lambda: metadata.segment_id in ids(metadata.partition))

        for metadata in begun:
            with pytest.raises(OSError, match="the disk broke here"):
                storage.copy_segment(metadata, breaking(make_data(), 0, wait=partial(wait_for, metadata)))
        assert ids(begun[0].partition) == sorted((it.segment_id for it in begun[:3]), key=str)
        assert ids(begun[3].partition) == [begun[3].segment_id]
        for metadata in begun:
            storage.abort_upload(metadata)
