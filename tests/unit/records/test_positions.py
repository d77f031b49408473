"""The bytes of a range hold every batch with one of its offsets, and parts of a segment hold each record once."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicated_logs import CopiedSegment, ReplicatedLog, sources
from tiergate_client.errors import StorageUnavailable, StoredDataCorrupt
from tiergate_client.records.history import HistoryPiece
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.positions import cut_ranges, located_range
from tiergate_client.records.read_split import SegmentRange
from tiergate_client.records.segment_indexes import parsed_offset_index
from tiergate_client.segment_files import SegmentFile

# Batches of 100 bytes and 10 offsets each, some appended together: the offsets 20 to 159.
INDEX = OffsetIndex(offsets=(79, 139, 149), positions=(300, 900, 1200))


def segment_of(source: random.Random, *, batches: int = 12) -> CopiedSegment:
    log = ReplicatedLog(source)
    for _ in range(5 + batches):
        log.append("plain", records=source.randint(0, 5))
    log.copy(5, 5 + batches)
    return log.copied[0]


def index_of(copy: CopiedSegment) -> OffsetIndex:
    return parsed_offset_index(copy.metadata, copy.files[SegmentFile.OFFSET_INDEX])


def random_piece(copy: CopiedSegment, source: random.Random) -> HistoryPiece:
    first, stop = copy.metadata.start_offset, copy.metadata.end_offset + 1
    start = source.choice([first, source.randint(first, stop - 1)])
    return HistoryPiece(copy.metadata, start, source.choice([stop, source.randint(start + 1, stop)]))


def offsets_in(copy: CopiedSegment, one: SegmentRange) -> list[int]:
    """As a reader finds them: of whole batches within the bytes, those within the offsets."""
    borders = [0, *accumulate(len(batch.content) for batch in copy.batches)]
    assert {one.start_position, one.stop_position} <= set(borders)
    return [
        offset
        for batch, position in zip(copy.batches, borders, strict=False)
        if one.start_position <= position < one.stop_position
        for offset in range(batch.base_offset, batch.last_offset + 1)
        if one.start_offset <= offset < one.stop_offset
    ]


@pytest.mark.parametrize(
    ("start", "stop", "positions"),
    [
        (20, 160, (0, 1400)),
        (78, 79, (0, 1200)),
        (79, 80, (0, 1200)),
        (80, 81, (300, 1400)),
        (139, 140, (300, 1400)),
        (140, 141, (900, 1400)),
    ],
)
def test_bytes_reach_from_a_batch_before_to_one_behind(start: int, stop: int, positions: tuple[int, int]) -> None:
    segment = replace(segment_of(random.Random(1)).metadata, segment_size_bytes=1400)
    found = located_range(HistoryPiece(segment, start, stop), INDEX)
    assert (found.start_position, found.stop_position) == positions


@given(sources())
def test_every_offset_of_a_piece_is_within_its_bytes(source: random.Random) -> None:
    copy = segment_of(source)
    piece = random_piece(copy, source)
    found = located_range(piece, index_of(copy))
    assert offsets_in(copy, found) == list(range(piece.start_offset, piece.stop_offset))


@given(sources(), st.integers(1, 1500), st.none() | st.integers(1, 40))
def test_parts_follow_one_another_and_keep_to_the_limits_where_they_can(
    source: random.Random, most_bytes: int, most_offsets: int | None
) -> None:
    copy = segment_of(source)
    piece, index = random_piece(copy, source), index_of(copy)
    parts = list(cut_ranges(piece, index, most_bytes=most_bytes, most_offsets=most_offsets))
    assert (parts[0].start_offset, parts[-1].stop_offset) == (piece.start_offset, piece.stop_offset)
    assert all(one.stop_offset == following.start_offset for one, following in pairwise(parts))
    for part in parts:
        assert offsets_in(copy, part) == list(range(part.start_offset, part.stop_offset))
        inner = [offset for offset in index.offsets if part.start_offset <= offset < part.stop_offset - 1]
        assert not inner or part.size_bytes <= most_bytes
        assert most_offsets is None or part.stop_offset - part.start_offset <= most_offsets


def test_large_segment_is_cut_evenly() -> None:
    entries = 1000
    index = OffsetIndex(
        tuple(10 * number + 9 for number in range(1, entries)), tuple(4096 * number for number in range(1, entries))
    )
    segment = replace(segment_of(random.Random(1)).metadata, segment_size_bytes=4096 * entries)
    piece = HistoryPiece(segment, 0, 10 * entries)
    parts = list(cut_ranges(piece, index, most_bytes=500_000))
    assert len(parts) == 9
    assert all(400_000 < part.size_bytes <= 500_000 for part in parts)
    assert sum(part.size_bytes for part in parts) <= 4096 * (entries + 3 * len(parts))
    by_offsets = list(cut_ranges(piece, index, most_bytes=10**9, most_offsets=3000))
    assert [part.stop_offset - part.start_offset for part in by_offsets] == [2500] * 4


def test_part_has_not_one_offset_too_many() -> None:
    index = OffsetIndex(tuple(range(1, 100)), tuple(100 * number for number in range(1, 100)))
    segment = replace(segment_of(random.Random(1)).metadata, segment_size_bytes=10_000)
    parts = list(cut_ranges(HistoryPiece(segment, 0, 100), index, most_bytes=10**9, most_offsets=50))
    assert [(part.start_offset, part.stop_offset) for part in parts] == [(0, 50), (50, 100)]


def test_index_that_points_behind_its_log_is_refused_by_name() -> None:
    copy = segment_of(random.Random(1))
    beyond = (10_000).to_bytes(4, "big") + copy.metadata.segment_size_bytes.to_bytes(4, "big")
    with pytest.raises(StoredDataCorrupt, match=str(copy.metadata.segment_id)) as refused:
        parsed_offset_index(copy.metadata, copy.files[SegmentFile.OFFSET_INDEX] + beyond)
    assert refused.value.details["file"] == "offset_index"
    with pytest.raises(StorageUnavailable):
        parsed_offset_index(copy.metadata, StorageUnavailable("down"))
