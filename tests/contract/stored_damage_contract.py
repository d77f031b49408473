"""What every RemoteStorage does about stored bytes that are not what was copied: it tells, and never gives them."""

from __future__ import annotations

import pytest

from support.segments import ALL_INDEXES, make_data, make_metadata, read_back
from support.stored_objects import StoredObjects
from tiergate_client.errors import IndexNotFound, SegmentNotFound, StoredDataCorrupt
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_files import BLOCK_BYTES, IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_client.verification import Damage, VerificationProgress

LOG, TXN_INDEX = SegmentFile.LOG, SegmentFile.TXN_INDEX
SIZE = 2 * BLOCK_BYTES + 77
DATA = make_data(log_bytes=SIZE, with_txn_index=True)
DIFFERENT = "does not match its checksum"
MISSING = "is missing"


def verified(storage: RemoteStorage, metadata: RemoteLogSegmentMetadata) -> list[VerificationProgress]:
    return list(storage.verify_segment(metadata))


def damages(storage: RemoteStorage, metadata: RemoteLogSegmentMetadata) -> list[Damage]:
    return [damage for progress in verified(storage, metadata) for damage in progress.damages]


def fetched(
    storage: RemoteStorage, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
) -> bytes:
    with storage.fetch_segment(metadata, offset=offset, length=length) as stream:
        return stream.read()


def content_of(storage: RemoteStorage, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
    return fetched(storage, metadata) if file is LOG else storage.fetch_index(metadata, file)


class StoredDamageContract:
    @pytest.fixture
    def storage(self) -> RemoteStorage:
        raise NotImplementedError("a subclass says which storage is tested")

    @pytest.fixture
    def objects(self) -> StoredObjects:
        raise NotImplementedError("a subclass says what is below the storage")

    @pytest.fixture
    def metadata(self, storage: RemoteStorage) -> RemoteLogSegmentMetadata:
        """A whole segment that nobody has read yet."""
        metadata = make_metadata()
        storage.copy_segment(metadata, DATA)
        return metadata

    def test_whole_segment_is_verified_to_its_last_byte(
        self, storage: RemoteStorage, metadata: RemoteLogSegmentMetadata
    ) -> None:
        told = verified(storage, metadata)
        total_bytes = sum(file.size_bytes for file in DATA.manifest(metadata).files.values())
        assert {progress.total_bytes for progress in told} == {total_bytes}
        positions = [progress.verified_bytes for progress in told]
        assert positions == sorted(positions)
        assert (positions[0], positions[-1]) == (0, total_bytes)
        assert told[-1].is_complete
        assert not any(progress.damages for progress in told)

    def test_segment_of_empty_files_is_verified(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data(log_bytes=0, index_bytes=0, with_txn_index=True)
        storage.copy_segment(metadata, data)
        assert verified(storage, metadata)[-1].is_complete
        assert damages(storage, metadata) == []

    @pytest.mark.parametrize("is_deleted", [True, False])
    def test_segment_that_is_not_there_is_not_verified(self, storage: RemoteStorage, is_deleted: bool) -> None:
        metadata = make_metadata()
        if is_deleted:
            storage.copy_segment(metadata, make_data(log_bytes=10))
            storage.delete_segment(metadata)
        with pytest.raises(SegmentNotFound):
            verified(storage, metadata)

    @pytest.mark.parametrize("position", [0, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 1, SIZE - 1])
    def test_flipped_bit_of_a_log_is_found_in_its_block_and_the_block_is_never_given(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata, position: int
    ) -> None:
        objects.flip(metadata, LOG, position=position)
        block = position // BLOCK_BYTES * BLOCK_BYTES
        assert damages(storage, metadata) == [Damage(LOG, block, DIFFERENT)]
        ranges = [(0, None), (position, 1), (position, None), (block, 1), (max(0, block - 1), 2)]
        for offset, length in ranges:
            with pytest.raises(StoredDataCorrupt):
                fetched(storage, metadata, offset=offset, length=length)
        assert isinstance(DATA.log, bytes)
        if block:
            assert fetched(storage, metadata, offset=0, length=block) == DATA.log[:block]
        if block + BLOCK_BYTES < SIZE:
            assert fetched(storage, metadata, offset=block + BLOCK_BYTES) == DATA.log[block + BLOCK_BYTES :]

    @pytest.mark.parametrize("position", [0, -1])
    @pytest.mark.parametrize("file", ALL_INDEXES)
    def test_flipped_bit_of_an_index_is_found_and_the_index_is_never_given(
        self,
        storage: RemoteStorage,
        objects: StoredObjects,
        metadata: RemoteLogSegmentMetadata,
        file: SegmentFile,
        position: int,
    ) -> None:
        objects.flip(metadata, file, position=position)
        assert damages(storage, metadata) == [Damage(file, 0, DIFFERENT)]
        with pytest.raises(StoredDataCorrupt):
            storage.fetch_index(metadata, file)
        (answer,) = storage.fetch_indexes([IndexQuestion(metadata, file)])
        assert isinstance(answer, StoredDataCorrupt)

    @pytest.mark.parametrize("position", [0, 30, -1])
    def test_flipped_bit_of_a_manifest_leaves_nothing_to_be_verified_or_read(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata, position: int
    ) -> None:
        objects.flip(metadata, None, position=position)
        with pytest.raises(StoredDataCorrupt):
            verified(storage, metadata)
        with pytest.raises(StoredDataCorrupt):
            fetched(storage, metadata)
        with pytest.raises(StoredDataCorrupt):
            storage.fetch_index(metadata, TXN_INDEX)

    @pytest.mark.parametrize("file", list(SegmentFile))
    def test_missing_file_is_found_and_is_no_missing_index(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata, file: SegmentFile
    ) -> None:
        objects.remove(objects.key_of(metadata, file))
        told = verified(storage, metadata)
        assert told[-1].is_complete
        assert [damage for progress in told for damage in progress.damages] == [Damage(file, 0, MISSING)]
        with pytest.raises(StoredDataCorrupt):
            content_of(storage, metadata, file)

    @pytest.mark.parametrize("file", [LOG, SegmentFile.OFFSET_INDEX])
    def test_file_that_ends_too_early_is_found_and_not_given(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata, file: SegmentFile
    ) -> None:
        size = DATA.manifest(metadata).files[file].size_bytes
        objects.change(metadata, file, lambda stored: stored.pop())
        assert damages(storage, metadata) == [Damage(file, size - 1, f"ends there instead of at {size}")]
        with pytest.raises(StoredDataCorrupt):
            content_of(storage, metadata, file)

    @pytest.mark.parametrize("file", list(SegmentFile))
    def test_file_that_goes_on_behind_its_end_is_found(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata, file: SegmentFile
    ) -> None:
        size = DATA.manifest(metadata).files[file].size_bytes
        objects.change(metadata, file, lambda stored: stored.extend(b"more"))
        assert damages(storage, metadata) == [Damage(file, size, "goes on behind its end")]

    def test_every_damage_is_found_in_one_run_and_none_when_all_is_right_again(
        self, storage: RemoteStorage, objects: StoredObjects, metadata: RemoteLogSegmentMetadata
    ) -> None:
        kept = {file: objects.read(objects.key_of(metadata, file)) for file in SegmentFile}
        keys = {file: objects.key_of(metadata, file) for file in SegmentFile}
        for position in (3, 2 * BLOCK_BYTES):
            objects.flip(metadata, LOG, position=position)
        objects.flip(metadata, TXN_INDEX, position=1)
        objects.remove(keys[SegmentFile.TIME_INDEX])
        assert set(damages(storage, metadata)) == {
            Damage(LOG, 0, DIFFERENT),
            Damage(LOG, 2 * BLOCK_BYTES, DIFFERENT),
            Damage(TXN_INDEX, 0, DIFFERENT),
            Damage(SegmentFile.TIME_INDEX, 0, MISSING),
        }
        for file, content in kept.items():
            objects.write(keys[file], content)
        assert damages(storage, metadata) == []
        assert read_back(storage, metadata) == DATA

    def test_verification_can_be_given_up(self, storage: RemoteStorage, metadata: RemoteLogSegmentMetadata) -> None:
        told = storage.verify_segment(metadata)
        assert next(told).verified_bytes == 0
        del told
        assert read_back(storage, metadata) == DATA

    def test_absent_transaction_index_is_no_damage_but_index_not_found(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        storage.copy_segment(metadata, make_data(log_bytes=10))
        assert damages(storage, metadata) == []
        for _ in range(2):
            with pytest.raises(IndexNotFound):
                storage.fetch_index(metadata, TXN_INDEX)
        (answer,) = storage.fetch_indexes([IndexQuestion(metadata, TXN_INDEX)])
        assert isinstance(answer, IndexNotFound)
