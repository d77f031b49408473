"""A transaction index that a segment does not have, and one that cannot be read, are told apart.

Else records of aborted transactions would be shown to readers that must not see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.s3_server import S3Server, running_s3_server, s3_environment
from support.segments import make_data, make_metadata
from tiergate_client.errors import IndexNotFound, StorageUnavailable
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.segment_cache import SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage

TXN_INDEX = SegmentFile.TXN_INDEX
WITHOUT, WITH = make_metadata(), make_metadata()
DATA = make_data(log_bytes=10, with_txn_index=True)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    s3_environment(monkeypatch)
    with running_s3_server(tmp_path) as server:
        yield server


@pytest.fixture
def storage(server: S3Server) -> Iterator[SegmentStorage]:
    with closing(S3Store(server.new_bucket().settings())) as store:
        storage = SegmentStorage(store, cache=SegmentCache(1024 * 1024))
        storage.copy_segment(WITHOUT, make_data(log_bytes=10))
        storage.copy_segment(WITH, DATA)
        yield storage


def told(storage: SegmentStorage, metadata: RemoteLogSegmentMetadata) -> object:
    """What is answered, alone and in a batch."""
    (in_batch,) = storage.fetch_indexes([IndexQuestion(metadata, TXN_INDEX)])
    if isinstance(in_batch, bytes):
        assert storage.fetch_index(metadata, TXN_INDEX) == in_batch
        return in_batch
    with pytest.raises(type(in_batch)):
        storage.fetch_index(metadata, TXN_INDEX)
    return type(in_batch)


def test_store_that_goes_away_is_never_taken_for_an_absent_index(server: S3Server, storage: SegmentStorage) -> None:
    server.stop()
    assert told(storage, WITHOUT) is StorageUnavailable
    assert told(storage, WITH) is StorageUnavailable
    server.start()
    assert told(storage, WITHOUT) is IndexNotFound
    storage.get_manifest(WITH)
    server.stop()
    assert told(storage, WITHOUT) is IndexNotFound, "the cached manifest still says so"
    assert told(storage, WITH) is StorageUnavailable, "the manifest is cached, the index is not"
    server.start()
    assert told(storage, WITH) == DATA.txn_index
