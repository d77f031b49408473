"""What every RemoteStorage must do. Subclass it, give it a `storage`, and it runs over that implementation."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract.upload_contract import UploadContract

from support.segments import make_data, make_metadata, read_back
from tiergate_client.errors import (
    IndexNotFound,
    InvalidField,
    NotOffered,
    OffsetOutOfRange,
    SegmentConflict,
    SegmentNotFound,
)
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import BLOCK_BYTES, IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState

SIZE = 2 * BLOCK_BYTES + 77
PIECE_BYTES_AT_MOST = 2 * 1024 * 1024


def log_of(data: LogSegmentData) -> bytes:
    assert isinstance(data.log, bytes)
    return data.log


def fetched(
    storage: RemoteStorage, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
) -> bytes:
    with storage.fetch_segment(metadata, offset=offset, length=length) as stream:
        return stream.read()


class RemoteStorageContract(UploadContract):
    gives_urls = False
    """Whether the store below can be read past the service."""

    @pytest.fixture
    def storage(self) -> RemoteStorage:
        raise NotImplementedError("a subclass says which storage is tested")

    @pytest.fixture
    def stored(self, storage: RemoteStorage) -> tuple[RemoteLogSegmentMetadata, LogSegmentData]:
        """A complete segment of two blocks and a bit."""
        metadata, data = make_metadata(), make_data(log_bytes=SIZE)
        storage.copy_segment(metadata, data)
        return metadata, data

    @pytest.mark.parametrize("log_bytes", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
    def test_copied_segment_is_read_back_whatever_its_size(self, storage: RemoteStorage, log_bytes: int) -> None:
        metadata, data = make_metadata(), make_data(log_bytes=log_bytes, with_txn_index=True)
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data

    def test_copied_segment_is_read_back_without_its_optional_files(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data(with_producer_snapshot=False)
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data

    def test_copied_segment_is_read_back_from_files(self, storage: RemoteStorage, tmp_path: Path) -> None:
        metadata, data = make_metadata(), make_data(log_bytes=SIZE)
        (tmp_path / "log").write_bytes(log_of(data))
        storage.copy_segment(metadata, replace(data, log=tmp_path / "log"))
        assert read_back(storage, metadata) == data

    def test_copied_segment_is_read_back_with_empty_indexes(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data(index_bytes=0, with_txn_index=True)
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data
        assert storage.fetch_index(metadata, SegmentFile.TXN_INDEX) == b""

    def test_copied_segment_is_read_back_with_an_index_of_many_chunks(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data(log_bytes=10, index_bytes=2 * PIECE_BYTES_AT_MOST + 3)
        storage.copy_segment(metadata, data)
        assert read_back(storage, metadata) == data

    def test_copy_returns_custom_metadata_within_kafkas_limit(self, storage: RemoteStorage) -> None:
        assert 1 <= len(storage.copy_segment(make_metadata(), make_data())) <= 128

    def test_copy_of_the_same_content_again_answers_the_same(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data()
        first = storage.copy_segment(metadata, data)
        later = replace(metadata, broker_id=7, event_timestamp_ms=5, state=SegmentState.COPY_FINISHED)
        assert storage.copy_segment(later, data) == first
        assert read_back(storage, metadata) == data

    @pytest.mark.parametrize(
        "other",
        [
            make_data(seed=1),
            make_data(log_bytes=10),
            make_data(with_txn_index=True),
            make_data(with_producer_snapshot=False),
        ],
        ids=["other bytes", "other size", "one file more", "one file less"],
    )
    def test_copy_of_other_content_under_the_same_id_is_refused(
        self, storage: RemoteStorage, other: LogSegmentData
    ) -> None:
        metadata, data = make_metadata(), make_data()
        storage.copy_segment(metadata, data)
        with pytest.raises(SegmentConflict, match="other content"):
            storage.copy_segment(metadata, other)
        assert read_back(storage, metadata) == data

    def test_copy_of_other_offsets_under_the_same_id_is_refused(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data()
        storage.copy_segment(metadata, data)
        with pytest.raises(SegmentConflict):
            storage.copy_segment(replace(metadata, end_offset=metadata.end_offset + 1), data)

    def test_concurrent_copies_of_the_same_content_all_succeed(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data()
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: storage.copy_segment(metadata, data), range(8)))
        assert len(set(answers)) == 1
        assert read_back(storage, metadata) == data

    def test_one_of_concurrent_copies_of_other_contents_wins(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        contents = [make_data(seed=seed, log_bytes=1000) for seed in range(6)]

        def is_copied(data: LogSegmentData) -> bool:
            try:
                storage.copy_segment(metadata, data)
            except SegmentConflict:
                return False
            return True

        with ThreadPoolExecutor(3) as threads:
            wins = list(threads.map(is_copied, contents))
        assert wins.count(True) == 1
        assert read_back(storage, metadata) == contents[wins.index(True)]

    @pytest.mark.parametrize(
        ("offset", "length"),
        [
            (0, 1),
            (SIZE - 1, 1),
            (0, SIZE),
            (0, None),
            (5, 10),
            (BLOCK_BYTES - 1, 2),
            (BLOCK_BYTES, BLOCK_BYTES),
            (BLOCK_BYTES + 1, BLOCK_BYTES - 2),
            (1, SIZE - 2),
            (SIZE - 10, 11),
            (100, 2**40),
            (2 * BLOCK_BYTES, None),
        ],
    )
    def test_fetch_gives_exactly_the_range_asked_for(
        self,
        storage: RemoteStorage,
        stored: tuple[RemoteLogSegmentMetadata, LogSegmentData],
        offset: int,
        length: int | None,
    ) -> None:
        metadata, data = stored
        end = None if length is None else offset + length
        assert fetched(storage, metadata, offset=offset, length=length) == log_of(data)[offset:end]

    def test_fetch_gives_pieces_of_bounded_size(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        with storage.fetch_segment(stored[0]) as stream:
            sizes = [len(piece) for piece in stream]
        assert sum(sizes) == SIZE
        assert max(sizes) <= PIECE_BYTES_AT_MOST

    @pytest.mark.parametrize("room", [1000, BLOCK_BYTES, 3 * BLOCK_BYTES])
    def test_fetch_goes_into_memory_of_the_readers_and_on_in_pieces(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData], room: int
    ) -> None:
        metadata, data = stored
        buffer = memoryview(bytearray(room))
        received = b""
        with storage.fetch_segment(metadata, offset=5) as stream:
            for piece in stream:
                received += piece
                break
            pieces = iter(stream)
            for _ in range(2):
                count = stream.readinto(buffer)
                assert count > 0 or len(received) == SIZE - 5
                received += buffer[:count]
                received += next(pieces, b"")
            received += stream.read()
            assert stream.readinto(buffer) == 0
        assert received == log_of(data)[5:]

    def test_fetch_at_the_end_is_empty(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        assert fetched(storage, stored[0], offset=SIZE) == b""
        assert fetched(storage, stored[0], offset=SIZE, length=10) == b""

    def test_fetch_beyond_the_end_is_out_of_range_and_says_what_is_there(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        with pytest.raises(OffsetOutOfRange) as caught:
            fetched(storage, stored[0], offset=SIZE + 1)
        assert caught.value.details == {"earliest": "0", "latest": str(SIZE)}

    @pytest.mark.parametrize(("offset", "length"), [(-1, None), (-1, 5), (0, 0), (0, -1), (SIZE, 0)])
    def test_fetch_of_no_range_is_refused(
        self,
        storage: RemoteStorage,
        stored: tuple[RemoteLogSegmentMetadata, LogSegmentData],
        offset: int,
        length: int | None,
    ) -> None:
        with pytest.raises(InvalidField):
            fetched(storage, stored[0], offset=offset, length=length)

    def test_fetch_can_be_closed_before_its_end(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = stored
        stream = storage.fetch_segment(metadata)
        first = bytes(next(iter(stream)))
        stream.close()
        stream.close()
        storage.fetch_segment(metadata).close()
        assert first == log_of(data)[: len(first)] != b""
        assert read_back(storage, metadata) == data

    def test_absent_optional_index_is_not_found(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        storage.copy_segment(metadata, make_data(with_producer_snapshot=False))
        for file in (SegmentFile.TXN_INDEX, SegmentFile.PRODUCER_SNAPSHOT):
            with pytest.raises(IndexNotFound):
                storage.fetch_index(metadata, file)

    def test_many_indexes_are_fetched_in_the_order_asked_with_an_error_for_each_that_fails(
        self, storage: RemoteStorage
    ) -> None:
        contents = {make_metadata(): make_data(log_bytes=10, seed=seed, index_bytes=300_000) for seed in range(3)}
        for metadata, data in contents.items():
            storage.copy_segment(metadata, data)
        files = (SegmentFile.TIME_INDEX, SegmentFile.OFFSET_INDEX)
        questions = [IndexQuestion(metadata, file) for metadata in contents for file in files] * 12
        some = next(iter(contents))
        refused = {
            IndexQuestion(some, SegmentFile.TXN_INDEX): IndexNotFound,
            IndexQuestion(some, SegmentFile.LOG): InvalidField,
            IndexQuestion(make_metadata(), SegmentFile.OFFSET_INDEX): SegmentNotFound,
        }
        answers = storage.fetch_indexes([*refused, *questions])
        assert [type(answer) for answer in answers[: len(refused)]] == list(refused.values())
        assert answers[len(refused) :] == [getattr(contents[asked.metadata], asked.file.value) for asked in questions]
        assert storage.fetch_indexes([]) == []

    def test_log_is_not_fetched_as_an_index(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        with pytest.raises(InvalidField):
            storage.fetch_index(stored[0], SegmentFile.LOG)

    def test_manifest_is_that_of_the_copied_content(
        self, storage: RemoteStorage, stored: tuple[RemoteLogSegmentMetadata, LogSegmentData]
    ) -> None:
        metadata, data = stored
        assert storage.get_manifest(metadata) == data.manifest(metadata)

    def test_every_file_is_read_past_the_service_where_the_store_gives_urls(self, storage: RemoteStorage) -> None:
        metadata, data = make_metadata(), make_data(log_bytes=SIZE, with_txn_index=True)
        storage.copy_segment(metadata, data)
        if not self.gives_urls:
            without_txn_index = make_metadata()
            storage.copy_segment(without_txn_index, make_data(log_bytes=SIZE))
            for asked, files in ((metadata, ()), (without_txn_index, {SegmentFile.TXN_INDEX})):
                with pytest.raises(NotOffered):
                    storage.resolve_segment(asked, files=files)
            return
        resolved = storage.resolve_segment(metadata)
        assert resolved.manifest == data.manifest(metadata)
        for file in SegmentFile:
            with urllib.request.urlopen(resolved.urls[file]) as answer:  # noqa: S310 (made by our own store)
                assert answer.read() == getattr(data, file.value)
        assert resolved.valid_ms == 900_000
        assert resolved.expires_at_ms > 900_000
        some = {SegmentFile.LOG, SegmentFile.TIME_INDEX}
        assert storage.resolve_segment(metadata, files=some).urls.keys() == some

    def test_urls_are_valid_as_long_as_was_asked_for_and_no_longer_than_the_limit(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        storage.copy_segment(metadata, make_data(log_bytes=10))
        if self.gives_urls:
            assert storage.resolve_segment(metadata, valid_s=7).valid_ms == 7000
            assert storage.resolve_segment(metadata, valid_s=2**40).valid_ms == 900_000
        with pytest.raises(InvalidField, match="valid_seconds"):
            storage.resolve_segment(metadata, valid_s=-1)
        wrong: Any
        for wrong in ("log", {"log"}, SegmentFile.LOG):
            with pytest.raises(InvalidField, match="files"):
                storage.resolve_segment(metadata, files=wrong)

    @pytest.mark.parametrize(
        "read",
        [
            fetched,
            lambda storage, metadata: fetched(storage, metadata, offset=2**40, length=1),
            lambda storage, metadata: storage.fetch_index(metadata, SegmentFile.OFFSET_INDEX),
            lambda storage, metadata: storage.fetch_index(metadata, SegmentFile.TXN_INDEX),
            lambda storage, metadata: storage.get_manifest(metadata),
            lambda storage, metadata: storage.resolve_segment(metadata),
        ],
        ids=["segment", "segment beyond any end", "index", "optional index", "manifest", "urls"],
    )
    @pytest.mark.parametrize("deleted", [True, False])
    def test_segment_that_is_not_there_is_not_found(
        self, storage: RemoteStorage, read: Callable[[RemoteStorage, RemoteLogSegmentMetadata], object], deleted: bool
    ) -> None:
        metadata = make_metadata()
        if deleted:
            storage.copy_segment(metadata, make_data(log_bytes=10))
            storage.delete_segment(metadata)
        with pytest.raises(SegmentNotFound):
            read(storage, metadata)

    def test_delete_is_fine_for_what_is_not_there_and_twice(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        storage.delete_segment(metadata)
        storage.copy_segment(metadata, make_data())
        storage.delete_segment(metadata)
        storage.delete_segment(metadata)
        with pytest.raises(SegmentNotFound):
            storage.get_manifest(metadata)

    def test_delete_leaves_other_segments(self, storage: RemoteStorage) -> None:
        gone, stays = make_metadata(), make_metadata()
        neighbour = make_metadata(topic_id=gone.partition.topic_id, start_offset=200, end_offset=300)
        data = make_data()
        for metadata in (gone, stays, neighbour):
            storage.copy_segment(metadata, data)
        storage.delete_segment(gone)
        assert read_back(storage, stays) == read_back(storage, neighbour) == data

    @pytest.mark.parametrize("data", [make_data(), make_data(seed=1)], ids=["same content", "other content"])
    def test_deleted_id_cannot_be_copied_again(self, storage: RemoteStorage, data: LogSegmentData) -> None:
        metadata = make_metadata()
        storage.copy_segment(metadata, make_data())
        storage.delete_segment(metadata)
        with pytest.raises(SegmentConflict, match="was deleted"):
            storage.copy_segment(metadata, data)
        with pytest.raises(SegmentNotFound):
            storage.get_manifest(metadata)
