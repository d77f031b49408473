"""The storage contract over the segment domain itself, and what only holds in process."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.remote_storage_contract import RemoteStorageContract

from support.segments import make_data, make_metadata
from tiergate_client.errors import SegmentNotFound
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.segment_storage import SegmentStorage


class TestSegmentStorage(RemoteStorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> RemoteStorage:
        return SegmentStorage(FilesystemStore(tmp_path))

    def test_missing_segment_is_raised_by_the_call_not_by_the_first_read(self, storage: RemoteStorage) -> None:
        with pytest.raises(SegmentNotFound):
            storage.fetch_segment(make_metadata())

    def test_fetch_gives_pieces_that_end_where_blocks_end(self, storage: RemoteStorage) -> None:
        metadata = make_metadata()
        storage.copy_segment(metadata, make_data(log_bytes=3 * BLOCK_BYTES))
        with storage.fetch_segment(metadata, offset=10, length=3 * BLOCK_BYTES - 20) as stream:
            pieces = list(stream)
        assert [len(piece) for piece in pieces] == [BLOCK_BYTES - 10, BLOCK_BYTES, BLOCK_BYTES - 10]
