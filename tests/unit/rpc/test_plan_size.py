"""Which plans are refused for their number of splits, before they are made."""

from __future__ import annotations

import pytest

from support.segments import make_metadata
from tiergate_client.errors import LimitExceeded
from tiergate_client.records.history import HistoryPiece
from tiergate_server.rpc.plan_size import require_few_splits

KIB = 1024


def pieces_of(count: int, *, size_bytes: int, offsets: int) -> list[HistoryPiece]:
    starts = [number * offsets for number in range(count)]
    return [
        HistoryPiece(
            make_metadata(
                start_offset=start,
                end_offset=start + offsets - 1,
                epochs={0: start},
                segment_size_bytes=size_bytes,
            ),
            start,
            start + offsets,
        )
        for start in starts
    ]


@pytest.mark.parametrize(
    ("size_bytes", "offsets", "split_bytes", "split_records", "splits"),
    [
        (100 * KIB, 5000, 100 * KIB, None, 4),
        (100 * KIB, 5000, 10 * KIB, None, 40),
        (100 * KIB, 5000, 10 * KIB, 1000, 60),
        (100 * KIB, 5000, 1, None, 4 * (100 * KIB // 61)),
        (100 * KIB, 7, 1, 1, 28),
        (0, 7, 1, 1, 0),
    ],
    ids=["whole", "bytes", "records", "batches", "offsets", "empty"],
)
def test_plan_is_refused_above_the_limit_alone(
    size_bytes: int, offsets: int, split_bytes: int, split_records: int | None, splits: int
) -> None:
    pieces = pieces_of(4, size_bytes=size_bytes, offsets=offsets)
    require_few_splits(pieces, split_bytes=split_bytes, split_records=split_records, most=splits)
    with pytest.raises(LimitExceeded) as refusal:
        require_few_splits(pieces, split_bytes=split_bytes, split_records=split_records, most=splits - 1)
    assert refusal.value.details == {"limit": "plan_splits", "value": str(splits - 1)}


def test_many_small_segments_are_few_splits() -> None:
    require_few_splits(pieces_of(1000, size_bytes=100, offsets=5), split_bytes=100 * KIB, split_records=None, most=1)
