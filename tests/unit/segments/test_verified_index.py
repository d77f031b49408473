from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from support.segments import make_data, make_metadata
from tiergate_client.errors import OffsetOutOfRange, StoredDataCorrupt
from tiergate_client.segment_files import SegmentFile
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.segment_storage import SegmentStorage

MIB = 1024 * 1024
INDEX_BYTES = 3 * MIB + 17
METADATA = make_metadata()
DATA = make_data(log_bytes=10, index_bytes=INDEX_BYTES)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> SegmentStorage:
    storage = SegmentStorage(FilesystemStore(tmp_path_factory.mktemp("store")))
    storage.copy_segment(METADATA, DATA)
    return storage


around_borders = st.builds(
    lambda mebibytes, distance: min(max(mebibytes * MIB + distance, 0), INDEX_BYTES),
    st.integers(0, 3),
    st.integers(-3, 20),
)


@given(offset=around_borders, max_bytes=st.sampled_from([1, 7, MIB - 1, MIB, 2 * MIB, 9 * MIB, None]))
def test_piece_is_the_slice_asked_for_with_the_checksum_of_the_whole(
    storage: SegmentStorage, offset: int, max_bytes: int | None
) -> None:
    assert isinstance(DATA.time_index, bytes)
    piece = storage.fetch_index_piece(METADATA, SegmentFile.TIME_INDEX, offset=offset, max_bytes=max_bytes)
    end = INDEX_BYTES if max_bytes is None else offset + max_bytes
    assert piece.data == DATA.time_index[offset:end]
    assert (piece.whole.size_bytes, piece.whole.crc32c) == (INDEX_BYTES, crc32c(DATA.time_index))


def test_piece_beyond_the_end_is_out_of_range_and_says_what_is_there(storage: SegmentStorage) -> None:
    with pytest.raises(OffsetOutOfRange) as refusal:
        storage.fetch_index_piece(METADATA, SegmentFile.TIME_INDEX, offset=INDEX_BYTES + 1, max_bytes=1)
    assert refusal.value.details == {"earliest": "0", "latest": str(INDEX_BYTES)}


@pytest.mark.parametrize("damage", ["flipped", "shorter"])
def test_piece_of_an_index_that_is_damaged_behind_it_is_not_given(tmp_path: Path, damage: str) -> None:
    storage = SegmentStorage(FilesystemStore(tmp_path))
    storage.copy_segment(METADATA, DATA)
    (path,) = tmp_path.rglob(SegmentFile.TIME_INDEX.value)
    stored = bytearray(path.read_bytes())
    if damage == "flipped":
        stored[-1] ^= 1
    else:
        del stored[-1]
    path.write_bytes(stored)
    with pytest.raises(StoredDataCorrupt) as refusal:
        storage.fetch_index_piece(METADATA, SegmentFile.TIME_INDEX, offset=0, max_bytes=1)
    assert refusal.value.details["file"] == "time_index"


def test_piece_of_a_huge_index_takes_little_memory(tmp_path: Path) -> None:
    storage = SegmentStorage(FilesystemStore(tmp_path))
    metadata = make_metadata()
    storage.copy_segment(metadata, make_data(log_bytes=10, index_bytes=32 * MIB, with_producer_snapshot=False))
    tracemalloc.start()
    try:
        piece = storage.fetch_index_piece(metadata, SegmentFile.OFFSET_INDEX, offset=10 * MIB, max_bytes=2 * MIB)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(piece.data) == 2 * MIB
    assert peak_bytes < 5 * MIB
