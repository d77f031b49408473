from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.segments import log_sizes, make_data, make_metadata
from tiergate_client.errors import InvalidField
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.stored_reads import end_of_range, index_of, require_index, require_range, widened


@given(size=log_sizes(), data=st.data())
def test_widened_range_is_the_smallest_run_of_blocks_that_holds_it(size: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, max(size - 1, 0)))
    end = data.draw(st.integers(offset, size))
    begin, end_of_blocks = widened(offset, end, size=size)
    assert begin <= offset <= end <= end_of_blocks <= size
    assert begin % BLOCK_BYTES == 0
    assert end_of_blocks == size or end_of_blocks % BLOCK_BYTES == 0
    assert offset - begin < BLOCK_BYTES
    assert end_of_blocks - end < BLOCK_BYTES


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, 0), (0, -5), (2**63, None), (0, 2**63)])
def test_what_is_no_range_is_refused(offset: int, length: int | None) -> None:
    with pytest.raises(InvalidField):
        require_range(offset, length)


def test_range_ends_with_the_log() -> None:
    manifest = make_data(log_bytes=100).manifest(make_metadata())
    assert end_of_range(manifest, 10, 20) == 30
    assert end_of_range(manifest, 90, 20) == end_of_range(manifest, 90, None) == end_of_range(manifest, 100, 1) == 100


def test_log_is_no_index() -> None:
    manifest = make_data(log_bytes=100).manifest(make_metadata())
    require_index(SegmentFile.TIME_INDEX)
    assert index_of(manifest, SegmentFile.TIME_INDEX).size_bytes == 120
    with pytest.raises(InvalidField):
        require_index(SegmentFile.LOG)
