"""How far a micro-batch goes."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.segments import make_metadata
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.records.history import HistoryPiece, PartitionHistory
from tiergate_spark.admission import admitted_stops, available_stops, is_behind
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.tier_watch import TieredPartition

A, B, NEW = ("a", 0), ("b", 1), ("new", 0)
STRICT = DataLoss(is_error=True)

SIZES = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3)), st.tuples(st.integers(0, 10**12), st.integers(0, 10**12))
)


def tiered(start: int, stop: int, *, latest: int | None = None) -> TieredPartition:
    segment = make_metadata(start_offset=start, end_offset=max(start, stop - 1))
    pieces = (HistoryPiece(segment, start, stop),) if start < stop else ()
    history = PartitionHistory(segment.partition, LeaderEpochs(()), pieces)
    return TieredPartition(history, history.start_offset, history.stop_offset if latest is None else latest)


@given(SIZES, st.integers(1, 10**12))
def test_limit_is_divided_as_spark_divides_it(sizes: dict[tuple[str, int], tuple[int, int]], limit: int) -> None:
    starts = {place: start for place, (start, _) in sizes.items()}
    stops = {place: start + size for place, (start, size) in sizes.items()}
    total = sum(size for _, size in sizes.values())
    for place, stop in admitted_stops(starts, stops, limit=limit).items():
        start, size = sizes[place]
        prorated = limit * size / max(total, 1)
        share = math.ceil(prorated) if prorated < 1 else prorated
        assert stop == pytest.approx(start + min(size, share), abs=1, rel=1e-9)
        assert start <= stop <= start + size


@given(SIZES, st.integers(1, 10**6))
def test_batches_within_the_limit_reach_the_end(sizes: dict[tuple[str, int], tuple[int, int]], limit: int) -> None:
    starts = {place: start for place, (start, _) in sizes.items()}
    stops = {place: start + size % 500 for place, (start, size) in sizes.items()}
    batches = 0
    while starts != stops:
        ends = admitted_stops(starts, stops, limit=limit)
        read = sum(ends[place] - starts[place] for place in starts)
        assert 0 < read < limit + len(starts)
        starts, batches = ends, batches + 1
    assert batches <= 500 * len(stops)


def test_partition_without_a_start_is_not_limited() -> None:
    assert admitted_stops({A: 0}, {A: 100, NEW: 70}, limit=10) == {A: 10, NEW: 70}


def test_everything_up_to_what_is_stable_is_available() -> None:
    tier = {A: tiered(0, 50), B: tiered(5, 90, latest=60)}
    assert available_stops({A: 20, B: 5}, tier, loss=STRICT) == {A: 50, B: 60}


def test_partition_that_is_new_is_noted_at_its_first_offset() -> None:
    tier = {A: tiered(0, 50), NEW: tiered(30, 70), ("announced", 0): tiered(0, 0)}
    assert available_stops({A: 50}, tier, loss=STRICT) == {A: 50, NEW: 30}


def test_partition_of_which_nothing_is_left_keeps_its_place() -> None:
    assert available_stops({A: 20}, {A: tiered(0, 0)}, loss=STRICT) == {A: 20}


def test_start_behind_what_is_stable_keeps_its_place() -> None:
    assert available_stops({A: 45}, {A: tiered(0, 50, latest=40)}, loss=STRICT) == {A: 45}


def test_log_that_became_shorter_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    tier = {A: tiered(0, 50)}
    with pytest.raises(
        OffsetOutOfRange, match=r"a-0 ends at offset 50 now, but was read up to 60, and .* again; failOnDataLoss=false"
    ):
        available_stops({A: 60}, tier, loss=STRICT)
    accepted = DataLoss(is_error=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert available_stops({A: 60}, tier, loss=accepted) == {A: 60}, "nothing is read twice when it grows again"
    assert len(caplog.records) == 1


def test_tier_that_ends_before_what_was_read_is_behind() -> None:
    assert is_behind({A: 60, B: 5}, {A: tiered(0, 50), B: tiered(0, 9)})
    assert not is_behind({A: 50, B: 5}, {A: tiered(0, 50), B: tiered(0, 9)})
    assert is_behind({A: 50}, {A: tiered(0, 0)}), "nothing of it may have come yet"
    assert is_behind({B: 5}, {})
    assert not is_behind({B: 5}, {}, awaited={B: 5})


def test_partition_that_is_gone_is_a_loss_and_keeps_its_place() -> None:
    with pytest.raises(OffsetOutOfRange, match="b-1 is not in the tier any more"):
        available_stops({A: 60, B: 5}, {A: tiered(0, 60)}, loss=STRICT)
    assert available_stops({B: 5}, {}, loss=DataLoss(is_error=False)) == {B: 5}


def test_partition_that_is_not_there_yet_is_no_loss_as_long_as_nothing_was_read_of_it() -> None:
    assert available_stops({B: 5}, {}, loss=STRICT, awaited={B: 5}) == {B: 5}
    with pytest.raises(OffsetOutOfRange, match="b-1 is not in the tier any more"):
        available_stops({B: 6}, {}, loss=STRICT, awaited={B: 5})
