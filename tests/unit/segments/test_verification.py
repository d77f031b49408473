"""When a verification has news, and what it does about a store that fails or a segment that goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from support.hooked_store import HookedStore
from support.segments import make_data, make_metadata
from support.stored_objects import DirectoryObjects
from tiergate_client.errors import SegmentNotFound, StorageUnavailable
from tiergate_client.segment_files import BLOCK_BYTES, REQUIRED_FILES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.verification import VerificationProgress
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.object_store import ObjectReader
from tiergate_server.segments.segment_cache import SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.verification import PROGRESS_BYTES, SegmentVerification

METADATA = make_metadata()
DATA = make_data(log_bytes=3 * BLOCK_BYTES)
ZEROS = bytes(BLOCK_BYTES)


class Zeros(ObjectReader):
    """As many zeros as are wanted, and what happens after each read."""

    def __init__(self, size_bytes: int, after_read: Callable[[], None]) -> None:
        self._left = size_bytes
        self._after_read = after_read
        self.is_closed = False

    def read(self, size: int) -> bytes:
        given = min(size, self._left)
        self._left -= given
        self._after_read()
        return ZEROS[:given]

    def close(self) -> None:
        self.is_closed = True


class LargeSegment:
    """A log of zeros, as if it were read at so many blocks a second."""

    def __init__(self, *, blocks: int, block_s: float) -> None:
        self.now_s = 0.0
        self._block_s = block_s
        empty = dict.fromkeys(REQUIRED_FILES - {SegmentFile.LOG}, FileChecksum(0, 0))
        files = {SegmentFile.LOG: FileChecksum(blocks * BLOCK_BYTES, 0), **empty}
        self.manifest = SegmentManifest(METADATA, files, (crc32c(ZEROS),) * blocks)
        self.readers: list[Zeros] = []

    def verify(self) -> Iterator[VerificationProgress]:
        return SegmentVerification(
            self.manifest, self._open, require_segment=lambda: None, monotonic_s=lambda: self.now_s
        ).run()

    def _open(self, file: SegmentFile, length: int) -> ObjectReader:
        assert length == self.manifest.files[file].size_bytes + 1
        self.readers.append(Zeros(length - 1, self._pass_time))
        return self.readers[-1]

    def _pass_time(self) -> None:
        self.now_s += self._block_s


def test_progress_comes_at_once_then_every_64_mib_and_at_the_end() -> None:
    told = list(LargeSegment(blocks=200, block_s=0).verify())
    assert [progress.verified_bytes for progress in told] == [
        0,
        PROGRESS_BYTES,
        2 * PROGRESS_BYTES,
        3 * PROGRESS_BYTES,
        200 * BLOCK_BYTES,
    ]
    assert not any(progress.damages for progress in told)


def test_progress_comes_every_second_from_a_slow_store() -> None:
    told = list(LargeSegment(blocks=20, block_s=0.25).verify())
    assert [progress.verified_bytes // BLOCK_BYTES for progress in told] == [0, 4, 8, 12, 16, 20]


def test_verification_that_is_given_up_closes_what_it_reads() -> None:
    segment = LargeSegment(blocks=200, block_s=0)
    told = segment.verify()
    while next(told).verified_bytes == 0:
        pass
    told.close()  # type: ignore[attr-defined]  # it is a generator
    assert segment.readers
    assert all(reader.is_closed for reader in segment.readers)


@pytest.fixture
def store(tmp_path: Path) -> HookedStore:
    store = HookedStore(FilesystemStore(tmp_path))
    SegmentStorage(store).copy_segment(METADATA, DATA)
    return store


@pytest.mark.parametrize("reads_before", range(6))
def test_failing_store_is_an_error_and_never_a_finding(store: HookedStore, reads_before: int) -> None:
    told: list[VerificationProgress] = []
    begin = store.reads

    def fail_later() -> None:
        if store.reads - begin > reads_before:
            raise StorageUnavailable("the store is away", retry_after_ms=1)
        store.before_next_read = fail_later

    store.before_next_read = fail_later
    with pytest.raises(StorageUnavailable):
        told.extend(SegmentStorage(store).verify_segment(METADATA))
    assert not any(progress.damages or progress.is_complete for progress in told)


def test_segment_that_is_deleted_meanwhile_is_not_found_instead_of_damaged(store: HookedStore, tmp_path: Path) -> None:
    told = SegmentStorage(store).verify_segment(METADATA)
    assert next(told).verified_bytes == 0
    SegmentStorage(FilesystemStore(tmp_path)).delete_segment(METADATA)
    with pytest.raises(SegmentNotFound):
        list(told)


def test_manifest_is_read_from_the_store_whatever_a_cache_holds(store: HookedStore, tmp_path: Path) -> None:
    storage = SegmentStorage(store, cache=SegmentCache(BLOCK_BYTES))
    storage.get_manifest(METADATA)
    objects = DirectoryObjects(tmp_path)
    objects.remove(objects.key_of(METADATA, None))
    with pytest.raises(SegmentNotFound):
        list(storage.verify_segment(METADATA))
