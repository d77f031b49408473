"""Runs of offsets against sets of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tiergate_spark.pipelines.export_coverage import Coverage, Run, common, joined, without

_RUN = st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda one: (one[0], sum(one)))
_RUNS = st.lists(_RUN, max_size=6)


def offsets(runs: Iterable[Run]) -> set[int]:
    return {offset for run in runs for offset in range(*run)}


@given(runs=_RUNS)
def test_joined_runs_are_as_few_as_can_be(runs: list[Run]) -> None:
    found = joined(runs)
    assert offsets(found) == offsets(runs)
    assert all(start < stop for start, stop in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(run=_RUN, removed=_RUNS)
def test_what_is_removed_is_not_left(run: Run, removed: list[Run]) -> None:
    left = without(run, sorted(removed))
    assert offsets(left) == offsets([run]) - offsets(removed)
    assert left == sorted(left)
    assert all(start < stop for start, stop in left)


@given(runs=_RUNS, others=_RUNS)
def test_common_offsets_are_in_both(runs: list[Run], others: list[Run]) -> None:
    assert offsets(common(runs, others)) == offsets(runs) & offsets(others)


@given(runs=_RUNS, skipped=_RUNS, added=_RUN)
def test_coverage_knows_what_it_holds_and_what_it_lacks(runs: list[Run], skipped: list[Run], added: Run) -> None:
    known = Coverage.of(runs).with_skipped(skipped).with_run(added)
    held = offsets([*runs, added])
    assert offsets(known.runs) == held
    assert offsets(known.skipped) == offsets(skipped) - held
    assert known.stop_offset == max(held, default=-1) + 1
    assert known.overlaps(added) is bool(offsets([added]))
    for offset in range(40):
        start, stop = known.run_up_to(offset)
        assert stop == offset
        assert offsets([(start, stop)]) <= held
        assert (start == offset) is (offset - 1 not in held or offset in held)
