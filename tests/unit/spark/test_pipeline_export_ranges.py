"""How plans become waves, for plans of any shape."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tiergate_client import LeaderEpochs, RemoteLogSegmentMetadata, SegmentId, TopicId
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.values import TopicIdPartition
from tiergate_spark.pipelines.export_ranges import divided

_MIB = 1024 * 1024


@st.composite
def plans(draw: st.DrawFn, *, most_of_one: int = 1) -> list[PartitionPlan]:
    """Of each partition some, with offsets between them."""
    return [
        _plan(
            number,
            100 * place,
            draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(1, 8)), max_size=6)),
        )
        for number in range(draw(st.integers(0, 4)))
        for place in range(draw(st.integers(1, most_of_one)))
    ]


def _plan(number: int, start_offset: int, shape: list[tuple[int, int, int]]) -> PartitionPlan:
    """Splits of so many offsets, with so many that nobody holds before each, of so many MiB."""
    partition = TopicIdPartition(TopicId(bytes(16)), number, "orders")
    offset, splits = start_offset, []
    for count, missing, mebibytes in shape:
        start = offset + missing
        offset = start + count
        segment = RemoteLogSegmentMetadata(
            partition, SegmentId.random(), start, offset - 1, LeaderEpochs(((0, 0),)), mebibytes * _MIB
        )
        splits.append(ReadSplit(partition, (SegmentRange(segment, start, offset, 0, mebibytes * _MIB),)))
    return PartitionPlan(partition, start_offset, offset, tuple(splits))


@given(plans=plans(most_of_one=3), wave_mebibytes=st.integers(1, 20))
def test_ranges_of_a_plan_follow_one_another_and_hold_all_of_it(
    plans: list[PartitionPlan], wave_mebibytes: int
) -> None:
    waves = divided(plans, wave_bytes=wave_mebibytes * _MIB)
    for wave in waves:  # one job reads one range of a partition
        assert len({one.partition for one in wave.ranges}) == len(wave.ranges)
    ranges = [one for wave in waves for one in wave.ranges]
    assert all(one.start_offset < one.stop_offset for one in ranges)
    for number in {plan.partition.partition for plan in plans}:
        starts = [one.start_offset for one in ranges if one.partition == number]
        assert starts == sorted(starts)
    for plan in plans:
        found = [
            one
            for one in ranges
            if one.partition == plan.partition.partition and plan.start_offset <= one.start_offset < plan.stop_offset
        ]
        if plan.start_offset == plan.stop_offset:
            assert found == []
            continue
        assert found[0].start_offset == plan.start_offset
        assert found[-1].stop_offset == plan.stop_offset
        assert all(before.stop_offset == after.start_offset for before, after in pairwise(found))
    assert sum(one.stop_offset - one.start_offset for one in ranges) == sum(
        plan.stop_offset - plan.start_offset for plan in plans
    )


@given(plans=plans(most_of_one=3), wave_mebibytes=st.integers(1, 20))
def test_every_split_is_counted_once(plans: list[PartitionPlan], wave_mebibytes: int) -> None:
    waves = divided(plans, wave_bytes=wave_mebibytes * _MIB)
    splits = [split for plan in plans for split in plan.splits]
    assert sum(wave.size_bytes for wave in waves) == sum(split.size_bytes for split in splits)
    assert sum(wave.split_count for wave in waves) == len(splits)


@given(plans=plans(), wave_mebibytes=st.integers(1, 20))
def test_waves_have_the_size_that_is_asked_for(plans: list[PartitionPlan], wave_mebibytes: int) -> None:
    waves = divided(plans, wave_bytes=wave_mebibytes * _MIB)
    assert all(wave.size_bytes >= wave_mebibytes * _MIB for wave in waves[:-1])
    assert all(wave.size_bytes < (wave_mebibytes + 8) * _MIB for wave in waves)
