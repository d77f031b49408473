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
def plans(draw: st.DrawFn) -> list[PartitionPlan]:
    return [
        _plan(number, draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(1, 8)), max_size=6)))
        for number in range(draw(st.integers(0, 4)))
    ]


def _plan(number: int, shape: list[tuple[int, int, int]]) -> PartitionPlan:
    """Splits of so many offsets, with so many that nobody holds before each, of so many MiB."""
    partition = TopicIdPartition(TopicId(bytes(16)), number, "orders")
    offset, splits = 100, []
    for count, missing, mebibytes in shape:
        start = offset + missing
        offset = start + count
        segment = RemoteLogSegmentMetadata(
            partition, SegmentId.random(), start, offset - 1, LeaderEpochs(((0, 0),)), mebibytes * _MIB
        )
        splits.append(ReadSplit(partition, (SegmentRange(segment, start, offset, 0, mebibytes * _MIB),)))
    return PartitionPlan(partition, 100, offset, tuple(splits))


@given(plans=plans(), wave_mebibytes=st.integers(1, 20))
def test_ranges_of_a_partition_follow_one_another_and_hold_all_of_its_plan(
    plans: list[PartitionPlan], wave_mebibytes: int
) -> None:
    waves = divided(plans, wave_bytes=wave_mebibytes * _MIB)
    for plan in plans:
        number = plan.partition.partition
        per_wave = [[one for one in wave.ranges if one.partition == number] for wave in waves]
        assert all(len(found) <= 1 for found in per_wave)
        ranges = [one for found in per_wave for one in found]
        if plan.start_offset == plan.stop_offset:
            assert ranges == []
            continue
        assert ranges[0].start_offset == plan.start_offset
        assert ranges[-1].stop_offset == plan.stop_offset
        assert all(one.start_offset < one.stop_offset for one in ranges)
        assert all(before.stop_offset == after.start_offset for before, after in pairwise(ranges))


@given(plans=plans(), wave_mebibytes=st.integers(1, 20))
def test_waves_have_the_size_that_is_asked_for(plans: list[PartitionPlan], wave_mebibytes: int) -> None:
    waves = divided(plans, wave_bytes=wave_mebibytes * _MIB)
    assert all(wave.size_bytes >= wave_mebibytes * _MIB for wave in waves[:-1])
    assert all(wave.size_bytes < (wave_mebibytes + 8) * _MIB for wave in waves)
    splits = [split for plan in plans for split in plan.splits]
    assert sum(wave.size_bytes for wave in waves) == sum(split.size_bytes for split in splits)
    assert sum(wave.split_count for wave in waves) == len(splits)
