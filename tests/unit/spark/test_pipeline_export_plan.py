"""What a run of an export plans to read, for tiers whose segments come in any order, go, and change."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_batches import Kind
from support.replicated_logs import FIRST_TIMESTAMP_MS, PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client import Tiergate
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.values import SegmentState
from tiergate_spark.offsets import offsets_json
from tiergate_spark.options import Service, parse_options
from tiergate_spark.pipelines.export import ExportOptions
from tiergate_spark.pipelines.export_coverage import Coverage, Run
from tiergate_spark.pipelines.export_plan import ExportedTopic, plan_export
from tiergate_spark.pipelines.export_wave import whole_plans
from tiergate_spark.pipelines.failures import PipelineFailed

_SERVICE = Service("127.0.0.1:1", "127.0.0.1:2", "service")
_OPTIONS = ExportOptions(_SERVICE)
_SKIPPING = ExportOptions(_SERVICE, fail_on_data_loss=False)


class ExportedTier(TierInMemory):
    """With one partition; of some segments the copy is begun only."""

    def list_partitions(self, *, topic: str | None = None) -> Iterator[Any]:
        assert topic in (None, "orders")
        return iter([SimpleNamespace(partition=PARTITION, finished_segment_count=len(self.finished))])

    @property
    def tiergate(self) -> Tiergate:
        return cast(Tiergate, SimpleNamespace(metadata=self, storage=self))

    @property
    def topic(self) -> ExportedTopic:
        return ExportedTopic("orders", PARTITION.topic_id, _SERVICE, self.tiergate, {("orders", 0): PARTITION})

    @property
    def runs(self) -> list[Run]:
        """The offsets of each segment, whatever its state."""
        return [(copy.metadata.start_offset, copy.metadata.end_offset + 1) for copy in self.copies.values()]

    def set_state(self, number: int, state: SegmentState) -> None:
        self.states[list(self.copies)[number]] = state

    def begin(self, *numbers: int) -> None:
        """Their copies are not finished, or not yet."""
        for number in numbers:
            self.set_state(number, SegmentState.COPY_STARTED)

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.set_state(number, SegmentState.COPY_FINISHED)


def plain_tier(segments: int) -> ExportedTier:
    log = ReplicatedLog(random.Random(2))
    for _ in range(4 * segments):
        log.append("plain", records=3)
    for number in range(segments):
        log.copy(4 * number, 4 * number + 4)
    return ExportedTier(log.copied)


def planned(tier: ExportedTier, options: ExportOptions = _OPTIONS, known: Coverage | None = None) -> list[Run]:
    plan = plan_export(tier.topic, options, {} if known is None else {0: known})
    return [(one.start_offset, one.stop_offset) for one in plan.plans if one.start_offset < one.stop_offset]


def exported(
    tier: ExportedTier, options: ExportOptions = _OPTIONS, known: Coverage | None = None, *, ranges: int | None = None
) -> Coverage:
    """What an export holds after a run, which was killed behind so many ranges."""
    plan = plan_export(tier.topic, options, {} if known is None else {0: known})
    after = known or Coverage.of(())
    runs = [(one.start_offset, one.stop_offset) for one in plan.plans if one.start_offset < one.stop_offset]
    for run in runs[:ranges]:
        assert not after.overlaps(run)
        after = after.with_skipped(plan.skipped.get(0, ())).with_run(run)
    return after


def test_segment_that_is_finished_after_later_ones_were_exported_is_exported_by_the_next_run() -> None:
    tier = plain_tier(3)
    tier.begin(0)
    known = exported(tier)
    assert known.runs == ((tier.runs[1][0], tier.runs[2][1]),)
    assert planned(tier, known=known) == []
    tier.finish(0)
    assert planned(tier, known=known) == [tier.runs[0]]
    assert planned(tier, known=exported(tier, known=known)) == []


def test_gap_that_was_filled_in_part_is_filled_up_by_the_next_run() -> None:
    tier = plain_tier(4)
    tier.begin(0, 1, 3)
    known = exported(tier)
    tier.finish(0, 1, 3)
    assert planned(tier, known=known) == [(0, tier.runs[1][1]), tier.runs[3]]
    known = exported(tier, replace(_OPTIONS, to_offset=5), known)
    assert known.runs == ((0, 5), tier.runs[2])
    assert planned(tier, known=known) == [(5, tier.runs[1][1]), tier.runs[3]]


def test_hole_before_what_is_exported_is_an_error_that_names_it() -> None:
    tier = plain_tier(3)
    tier.begin(0, 1)
    known = exported(tier)
    tier.finish(0)
    start, stop = tier.runs[1]
    with pytest.raises(OffsetOutOfRange, match=f"holds the offsets {start} to {stop - 1}"):
        planned(tier, known=known)


def test_what_was_skipped_is_exported_when_it_comes_and_no_error_while_it_does_not() -> None:
    tier = plain_tier(4)
    tier.begin(1)
    with pytest.raises(OffsetOutOfRange):
        exported(tier)
    known = exported(tier, _SKIPPING)
    assert known.runs == (tier.runs[0], (tier.runs[2][0], tier.runs[3][1]))
    assert known.skipped == (tier.runs[1],)
    assert planned(tier, known=known) == planned(tier, _SKIPPING, known) == []
    tier.finish(1)
    assert planned(tier, known=known) == planned(tier, _SKIPPING, known) == [tier.runs[1]]


def test_missing_offsets_that_a_run_did_not_come_to_are_not_accepted_by_it() -> None:
    tier = plain_tier(4)
    tier.begin(2)
    known = exported(tier, replace(_SKIPPING, to_offset=5))
    assert (known.runs, known.skipped) == (((0, 5),), ())
    start, stop = tier.runs[2]
    with pytest.raises(OffsetOutOfRange, match=f"holds the offsets {start} to {stop - 1}"):
        planned(tier, known=known)


def test_offsets_that_are_still_missing_are_told_by_each_run_that_passes_over_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tier = plain_tier(4)
    tier.begin(1)
    known = exported(tier, _SKIPPING)
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        caplog.clear()
        assert planned(tier, known=known) == []
    start, stop = tier.runs[1]
    assert caplog.messages == [
        f"{stop - start} offsets are not in the tier and skipped: {start} to {stop - 1} of {PARTITION}"
    ]


@pytest.mark.parametrize("limit", ["from_time_ms", "to_time_ms"])
def test_time_that_may_be_in_what_was_skipped_is_no_error_later(limit: str) -> None:
    tier = plain_tier(4)
    tier.begin(1)
    late = list(tier.copies.values())[2].batches[0].max_timestamp_ms
    is_start = limit == "from_time_ms"
    strict = replace(_OPTIONS, from_time_ms=late if is_start else None, to_time_ms=None if is_start else late)
    known = exported(tier, replace(strict, fail_on_data_loss=False))
    assert known.skipped == (tier.runs[1],)
    assert planned(tier, strict, known) == []
    with pytest.raises(OffsetOutOfRange, match=r"\(failOnDataLoss=false\)"):
        planned(tier, strict, Coverage.of(known.runs))


def test_hole_that_was_skipped_before_what_is_exported_is_no_error_later() -> None:
    tier = plain_tier(3)
    tier.begin(0, 1)
    known = exported(tier)
    tier.finish(0)
    known = exported(tier, _SKIPPING, known)
    assert known.runs == (tier.runs[0], tier.runs[2])
    assert planned(tier, known=known) == []
    tier.finish(1)
    assert planned(tier, known=known) == [tier.runs[1]]


def test_what_retention_has_deleted_is_nothing_to_export() -> None:
    tier = plain_tier(4)
    tier.begin(0)
    known = exported(tier)
    tier.finish(0)
    for number in (0, 1):
        tier.set_state(number, SegmentState.DELETE_STARTED)
    assert planned(tier, known=known) == []


def test_what_retention_deleted_before_it_was_exported_is_an_error_unless_it_is_skipped() -> None:
    tier = plain_tier(4)
    tier.begin(1, 2, 3)
    known = exported(tier)
    tier.finish(3)
    tier.set_state(0, SegmentState.DELETE_STARTED)
    with pytest.raises(OffsetOutOfRange, match="can be read from offset"):
        planned(tier, known=known)
    known = exported(tier, _SKIPPING, known)
    assert known.runs == (tier.runs[0], tier.runs[3])
    assert planned(tier, known=known) == []


def test_gap_is_filled_from_the_offset_that_the_options_name() -> None:
    tier = plain_tier(3)
    tier.begin(0)
    options = replace(_SKIPPING, from_offset=7)
    known = exported(tier, options)
    tier.finish(0)
    assert planned(tier, options, known) == [(7, tier.runs[0][1])]
    known = exported(tier, options, known)
    assert planned(tier, replace(options, fail_on_data_loss=True), known) == []


def test_gap_is_filled_from_the_first_record_that_is_as_late_as_the_options_want() -> None:
    tier = plain_tier(3)
    whole = replace(_OPTIONS, from_time_ms=FIRST_TIMESTAMP_MS + 30)
    ((first, _),) = planned(tier, whole)
    assert 0 < first < tier.runs[0][1]
    tier.begin(0)
    known = exported(tier, whole)
    tier.finish(0)
    assert planned(tier, whole, known) == [(first, known.runs[0][0])]
    late = replace(whole, from_time_ms=FIRST_TIMESTAMP_MS * 2)
    assert planned(tier, late, known) == []


def test_gap_between_what_is_exported_is_filled_whatever_a_time_means_by_now() -> None:
    tier = plain_tier(4)
    late_ms = max(timestamp for one in next(iter(tier.copies.values())).batches for _, timestamp in one.rows)
    options = replace(_SKIPPING, from_time_ms=late_ms)
    tier.begin(1)
    known = exported(tier, options)
    assert 0 < known.runs[0][0] < known.runs[0][1] == tier.runs[0][1]
    tier.finish(1)
    tier.set_state(0, SegmentState.DELETE_STARTED)
    ((first, _),) = planned(tier, options)
    assert first > tier.runs[1][0]  # its first records are older, but come after one that is not
    assert planned(tier, options, known) == [tier.runs[1]]


@pytest.mark.parametrize(("to_offset", "expected"), [(5, [(0, 5)]), (0, []), (30, [(0, 18)])])
def test_gap_is_filled_up_to_the_offset_that_the_options_name(to_offset: int, expected: list[Run]) -> None:
    tier = plain_tier(3)
    assert tier.runs[0] == (0, 18)
    tier.begin(0)
    known = exported(tier)
    tier.finish(0)
    assert planned(tier, replace(_OPTIONS, to_offset=to_offset), known) == expected


@given(data=st.data())
def test_every_offset_is_planned_once_in_whatever_order_segments_are_finished(data: st.DataObject) -> None:
    tier = plain_tier(6)
    tier.begin(*range(6))
    known: Coverage | None = None
    waiting = data.draw(st.permutations(range(6)))
    while waiting:
        for _ in range(data.draw(st.integers(1, 3), label="finished")):
            tier.finish(*waiting[:1])
            waiting = waiting[1:]
        options = replace(_OPTIONS, fail_on_data_loss=data.draw(st.booleans(), label="fail"))
        most = data.draw(st.sampled_from([None, 1, 2]), label="killed behind")
        try:
            known = exported(tier, options, known, ranges=most)
        except OffsetOutOfRange:
            assert options.fail_on_data_loss
        known = None if known is None or not known.runs else known
    while planned(tier, known=known):
        known = exported(tier, known=known, ranges=1)
    assert known is not None
    assert known.runs == ((0, tier.runs[-1][1]),)


def transactional_tier(end: Kind, *, first: Kind = "transactional") -> tuple[ExportedTier, int]:
    """A transaction of producer 7 that ends in the second segment; and where that producer's first batch is."""
    log = ReplicatedLog(random.Random(3))
    log.append("plain", records=3)
    begin = log.end_offset
    log.append(first, producer_id=7, records=3)
    log.copy(0, 2)
    log.append("transactional", producer_id=7, records=3)
    log.append(end, producer_id=7)
    log.copy(2, 4)
    log.append("plain", records=3)
    log.copy(4, 5)
    return ExportedTier(log.copied), begin


def test_records_that_were_left_out_since_the_end_of_their_transaction_was_missing_are_told() -> None:
    tier, _ = transactional_tier("commit")
    committed = replace(_OPTIONS, isolation="read_committed")
    skipping = replace(_SKIPPING, isolation="read_committed")
    tier.begin(1)
    known = exported(tier, skipping)
    assert known.runs == (tier.runs[0], tier.runs[2])
    assert planned(tier, committed, known) == []
    tier.finish(1)
    with pytest.raises(PipelineFailed, match=r"left out what the producers 7 had written.*another directory"):
        planned(tier, committed, known)
    assert planned(tier, skipping, known) == [tier.runs[1]]
    assert planned(tier, committed, exported(tier, skipping, known)) == []


def test_records_that_were_left_out_behind_the_end_of_a_run_are_told_too() -> None:
    tier, begin = transactional_tier("commit")
    tier.begin(1)
    known = exported(tier, replace(_SKIPPING, isolation="read_committed", to_offset=begin + 2))
    tier.finish(1)
    with pytest.raises(PipelineFailed, match="left out what the producers 7 had written"):
        planned(tier, replace(_OPTIONS, isolation="read_committed"), known)


@pytest.mark.parametrize(("first", "end"), [("transactional", "abort"), ("plain", "commit")])
def test_gap_is_filled_where_nothing_was_left_out_for_it(first: Kind, end: Kind) -> None:
    tier, _ = transactional_tier(end, first=first)
    tier.begin(1)
    known = exported(tier, replace(_SKIPPING, isolation="read_committed"))
    tier.finish(1)
    assert planned(tier, replace(_OPTIONS, isolation="read_committed"), known) == [tier.runs[1]]


def wave_options(options: ExportOptions, tier: ExportedTier, run: Run) -> Any:
    places: Mapping[str, str] = tier.topic.source_options(options, partitions=[0])
    limits = {
        "startingOffsets": offsets_json({("orders", 0): run[0]}),
        "endingOffsets": offsets_json({("orders", 0): run[1]}),
    }
    return parse_options({**places, **limits})


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_wave_is_not_read_when_a_new_leader_leaves_a_transaction_of_it_undecided(fail_on_data_loss: bool) -> None:
    log = ReplicatedLog(random.Random(4))
    log.append("plain", records=3)
    log.append("transactional", producer_id=7, records=3)
    log.copy(0, 2)
    log.append("commit", producer_id=7)
    log.append("plain", records=3)
    log.copy(2, 4)
    options = replace(_OPTIONS, isolation="read_committed", fail_on_data_loss=fail_on_data_loss)
    before = ExportedTier(log.copied)
    (run,) = planned(before, options)
    assert run == (0, log.end_offset)
    (plan,) = whole_plans(before.tiergate, [PARTITION], wave_options(options, before, run))
    assert (plan.start_offset, plan.stop_offset) == run
    log.change_leader(lost_batches=2)
    for _ in range(4):
        log.append("plain", records=3)
    log.copy(2, 6)
    after = ExportedTier(log.copied)
    with pytest.raises(OffsetOutOfRange, match=f"offsets 0 to {run[1] - 1} of orders-0 were to be exported.*run the"):
        whole_plans(after.tiergate, [PARTITION], wave_options(options, after, run))


@pytest.mark.parametrize("gone", [(0,), (1,), (0, 1)])
def test_wave_is_not_read_when_a_segment_of_it_was_deleted_also_where_loss_is_accepted(gone: tuple[int, ...]) -> None:
    tier = plain_tier(3)
    wanted = wave_options(_SKIPPING, tier, (0, tier.runs[2][1]))
    for number in gone:
        tier.set_state(number, SegmentState.DELETE_STARTED)
    with pytest.raises(OffsetOutOfRange, match="were to be exported"):
        whole_plans(tier.tiergate, [PARTITION], wanted)


def test_wave_is_not_read_when_its_partition_is_gone() -> None:
    tier = plain_tier(1)
    with pytest.raises(OffsetOutOfRange, match="were to be exported"):
        whole_plans(tier.tiergate, [], wave_options(_OPTIONS, tier, tier.runs[0]))
