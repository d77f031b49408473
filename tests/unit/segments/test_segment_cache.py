"""What a replica with a cache answers, while it and others copy, delete and lose segments in the same store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hooked_store import HookedStore
from support.segments import make_data, make_metadata, read_back
from tiergate_client.errors import IndexNotFound, SegmentNotFound, StorageUnavailable, StoredDataCorrupt
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.segment_cache import MANIFEST_VALID_S, Kind, SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage

MIB = 1024 * 1024
METADATA = make_metadata()
DATA = make_data(log_bytes=100, index_bytes=1000)
INDEX = SegmentFile.OFFSET_INDEX

Read = Callable[[SegmentStorage], object]


class Replica:
    """A replica with a cache, a clock that stands still, and a count of what it asks its store."""

    def __init__(self, directory: Path, *, cache_bytes: int = MIB) -> None:
        self.now_s = 1000.0
        self.lookups: Counter[tuple[Kind, bool]] = Counter()
        self.held_bytes = 0
        self.store = HookedStore(FilesystemStore(directory))
        cache = SegmentCache(cache_bytes, monotonic_s=lambda: self.now_s, observer=self)
        self.storage = SegmentStorage(self.store, cache=cache)

    def looked_up(self, kind: Kind, *, is_hit: bool) -> None:
        self.lookups[kind, is_hit] += 1

    def holds(self, size_bytes: int) -> None:
        self.held_bytes = size_bytes

    def asked(self, read: Read) -> int:
        """How often the store is asked to answer this."""
        before = self.store.reads
        read(self.storage)
        return self.store.reads - before


@pytest.fixture
def here(tmp_path: Path) -> Replica:
    replica = Replica(tmp_path)
    replica.storage.copy_segment(METADATA, DATA)
    return replica


@pytest.fixture
def elsewhere(tmp_path: Path, here: Replica) -> SegmentStorage:
    """Another replica on the same store; it comes after `here`, which makes the segment."""
    assert here
    return SegmentStorage(FilesystemStore(tmp_path))


def fetch_log(storage: SegmentStorage) -> bytes:
    with storage.fetch_segment(METADATA) as stream:
        return stream.read()


def fetch_index(storage: SegmentStorage) -> bytes:
    return storage.fetch_index(METADATA, INDEX)


def get_manifest(storage: SegmentStorage) -> object:
    return storage.get_manifest(METADATA)


def file_of(directory: Path, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> Path:
    (path,) = directory.glob(f"*/{metadata.segment_id}/*/{file.value}")
    return path


def test_second_read_asks_the_store_for_the_log_only(here: Replica) -> None:
    assert here.asked(lambda storage: read_back(storage, METADATA)) > 4
    assert here.asked(get_manifest) == 0
    assert here.asked(fetch_index) == 0
    assert here.asked(fetch_log) == 1
    assert read_back(here.storage, METADATA) == DATA


def test_lookups_and_held_bytes_are_told(here: Replica) -> None:
    fetch_index(here.storage)
    assert here.lookups == {("manifest", False): 1, ("index", False): 1}
    assert 1000 < here.held_bytes < 10_000
    fetch_index(here.storage)
    assert here.lookups == {("manifest", False): 1, ("index", False): 1, ("manifest", True): 1, ("index", True): 1}
    here.storage.delete_segment(METADATA)
    assert here.held_bytes == 0


def test_manifest_is_served_for_five_seconds_from_the_question_on(here: Replica) -> None:
    get_manifest(here.storage)
    here.now_s += MANIFEST_VALID_S - 0.001
    assert here.asked(get_manifest) == 0
    here.now_s += 0.001
    assert here.asked(get_manifest) == 1


def test_manifest_that_comes_late_is_served_for_what_is_left(here: Replica) -> None:
    def a_slow_answer() -> None:
        here.now_s += 4

    here.store.before_next_read = a_slow_answer
    get_manifest(here.storage)
    here.now_s += 0.999
    assert here.asked(get_manifest) == 0
    here.now_s += 0.001
    assert here.asked(get_manifest) == 1


def test_index_outlives_its_manifest_and_is_served_with_the_next_one(here: Replica) -> None:
    fetch_index(here.storage)
    here.now_s += MANIFEST_VALID_S
    assert here.asked(fetch_index) == 1


@pytest.mark.parametrize("read", [fetch_log, fetch_index, get_manifest])
def test_deletion_here_is_seen_at_once(here: Replica, read: Read) -> None:
    read(here.storage)
    here.storage.delete_segment(METADATA)
    with pytest.raises(SegmentNotFound):
        read(here.storage)


@pytest.mark.parametrize("read", [fetch_log, fetch_index, get_manifest])
def test_deletion_elsewhere_is_seen_after_five_seconds_at_the_latest(
    here: Replica, elsewhere: SegmentStorage, read: Read
) -> None:
    read(here.storage)
    elsewhere.delete_segment(METADATA)
    here.now_s += MANIFEST_VALID_S
    with pytest.raises(SegmentNotFound):
        read(here.storage)


def test_data_that_vanished_under_a_cached_manifest_is_not_found_when_it_was_deleted(
    here: Replica, elsewhere: SegmentStorage
) -> None:
    get_manifest(here.storage)
    elsewhere.delete_segment(METADATA)
    assert here.asked(get_manifest) == 0
    with pytest.raises(SegmentNotFound):
        fetch_log(here.storage)
    with pytest.raises(SegmentNotFound):  # from then on the manifest is known to be gone
        get_manifest(here.storage)


def test_data_that_vanished_under_a_manifest_that_stays_is_lost(here: Replica, tmp_path: Path) -> None:
    get_manifest(here.storage)
    file_of(tmp_path, METADATA, INDEX).unlink()
    with pytest.raises(StoredDataCorrupt, match="is missing"):
        fetch_index(here.storage)


@pytest.mark.parametrize("breaks_off", [False, True])
def test_read_that_began_before_a_deletion_does_not_bring_the_manifest_back(here: Replica, breaks_off: bool) -> None:
    """The manifest is on its way when the deletion comes in between, and arrives after it."""

    def delete() -> None:
        if breaks_off:
            here.store.fail_after_deletes = 1
        with ExitStack() as expected:
            if breaks_off:
                expected.enter_context(pytest.raises(StorageUnavailable))
            here.storage.delete_segment(METADATA)
        here.store.fail_after_deletes = None

    here.store.after_next_get = delete
    get_manifest(here.storage)
    with pytest.raises(SegmentNotFound):
        get_manifest(here.storage)
    assert here.held_bytes == 0


def test_absence_is_not_remembered(tmp_path: Path) -> None:
    here, there = Replica(tmp_path), SegmentStorage(FilesystemStore(tmp_path))
    with pytest.raises(SegmentNotFound):
        get_manifest(here.storage)
    there.copy_segment(METADATA, DATA)
    assert read_back(here.storage, METADATA) == DATA


def test_failure_of_the_store_is_neither_absence_nor_remembered(here: Replica) -> None:
    def fail() -> None:
        raise StorageUnavailable("the store is away", retry_after_ms=1)

    for read in (fetch_index, get_manifest):
        here.store.before_next_read = fail
        with pytest.raises(StorageUnavailable):
            read(here.storage)
    assert fetch_index(here.storage) == DATA.offset_index


def test_missing_transaction_index_is_not_found_from_cached_manifests_too(here: Replica) -> None:
    for _ in range(2):
        with pytest.raises(IndexNotFound):
            here.storage.fetch_index(METADATA, SegmentFile.TXN_INDEX)


def test_copy_decides_by_the_store_whatever_is_cached(here: Replica, elsewhere: SegmentStorage) -> None:
    get_manifest(here.storage)
    assert here.asked(lambda storage: storage.copy_segment(METADATA, DATA)) > 0
    elsewhere.delete_segment(METADATA)
    with pytest.raises(Exception, match="was deleted"):
        here.storage.copy_segment(METADATA, DATA)


def test_pieces_of_a_large_index_come_from_one_read(tmp_path: Path) -> None:
    here, metadata = Replica(tmp_path, cache_bytes=32 * MIB), make_metadata()
    data = make_data(log_bytes=10, index_bytes=3 * MIB)
    here.storage.copy_segment(metadata, data)
    assert isinstance(data.offset_index, bytes)
    before = here.store.reads
    for offset in range(0, 3 * MIB, MIB):
        piece = here.storage.fetch_index_piece(metadata, INDEX, offset=offset, max_bytes=MIB)
        assert piece.data == data.offset_index[offset : offset + MIB]
    assert here.store.reads - before == 2, "the manifest and the index"


def test_index_that_is_damaged_is_not_kept(here: Replica, tmp_path: Path) -> None:
    path = file_of(tmp_path, METADATA, INDEX)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StoredDataCorrupt):
        fetch_index(here.storage)
    path.write_bytes(whole)
    assert fetch_index(here.storage) == whole


def test_index_of_more_than_an_eighth_of_the_cache_is_not_kept(tmp_path: Path) -> None:
    here = Replica(tmp_path, cache_bytes=8 * 1000)
    here.storage.copy_segment(METADATA, DATA)
    assert [here.asked(fetch_index) for _ in range(3)] == [2, 1, 1]
    assert here.lookups["index", True] == 0


def test_no_bytes_turn_the_cache_off(tmp_path: Path) -> None:
    here = Replica(tmp_path, cache_bytes=0)
    here.storage.copy_segment(METADATA, DATA)
    assert [here.asked(fetch_index) for _ in range(3)] == [2, 2, 2]
    assert here.held_bytes == 0


def test_crowd_of_readers_holds_no_more_than_a_quarter_beside_the_cache(tmp_path: Path) -> None:
    """One read is under way, and as many as fit begin inside it: the next one is not read into memory whole."""
    size_bytes = 100_000
    here = Replica(tmp_path, cache_bytes=8 * (size_bytes + 1000))
    segments = [make_metadata() for _ in range(3)]
    for metadata in segments:
        here.storage.copy_segment(metadata, make_data(log_bytes=10, index_bytes=size_bytes))
        here.storage.get_manifest(metadata)
    kept_at_depth: list[int] = []

    def read_next() -> None:
        if metadata := next(waiting, None):
            here.store.before_next_read = read_next
            here.storage.fetch_index(metadata, INDEX)
            kept_at_depth.append(here.held_bytes // size_bytes)

    waiting = iter(segments)
    read_next()
    assert kept_at_depth == [0, 1, 2], "the innermost was read without being kept"


def test_many_indexes_are_fetched_in_one_with_an_error_for_each_that_fails(here: Replica) -> None:
    questions = [
        IndexQuestion(METADATA, INDEX),
        IndexQuestion(METADATA, SegmentFile.TXN_INDEX),
        IndexQuestion(make_metadata(), INDEX),
    ]
    index, no_index, no_segment = here.storage.fetch_indexes(questions)
    assert index == DATA.offset_index
    assert isinstance(no_index, IndexNotFound)
    assert isinstance(no_segment, SegmentNotFound)
