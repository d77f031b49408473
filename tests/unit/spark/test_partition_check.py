"""The segments of a partition are checked together: what they leave out, and what they hold for nothing."""

from __future__ import annotations

import random

import pytest

from support.replicated_logs import PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import StorageUnavailable
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState
from tiergate_spark.pipelines.checks.finding import Kind, Severity
from tiergate_spark.pipelines.checks.partition_check import PartitionReport, check_partition


def copied_log(*, batches: int = 6) -> ReplicatedLog:
    """Each batch is copied as a segment of its own."""
    log = ReplicatedLog(random.Random(2))
    for number in range(batches):
        log.append("plain", records=3)
        log.copy(number, number + 1)
    return log


def report_of(tier: TierInMemory) -> PartitionReport:
    return check_partition(tier.metadata, tier.storage, PARTITION)


def test_segments_that_follow_one_another_have_no_findings() -> None:
    log = copied_log()
    report = report_of(TierInMemory(log.copied))
    assert report.findings == ()
    assert list(report.finished) == [copy.metadata for copy in log.copied]


def test_offsets_that_no_segment_holds_are_damage() -> None:
    log = copied_log()
    lost = log.copied.pop(3).metadata
    ((segment_id, finding),) = report_of(TierInMemory(log.copied)).findings
    assert segment_id is None
    assert (finding.kind, finding.severity) == (Kind.MISSING_OFFSETS, Severity.DAMAGE)
    assert finding.offset == lost.start_offset
    assert f"the offsets {lost.start_offset} to {lost.end_offset}" in finding.message


def test_front_that_retention_took_is_no_finding() -> None:
    assert report_of(TierInMemory(copied_log().copied[2:])).findings == ()


@pytest.mark.parametrize(
    ("also_lost", "severity"), [(None, Severity.WARNING), (2, Severity.DAMAGE), (4, Severity.DAMAGE)]
)
def test_hole_is_explained_by_segments_in_another_state_that_fill_it(also_lost: int | None, severity: Severity) -> None:
    log = copied_log()
    deleting = log.copied[3].metadata
    tier = TierInMemory([copy for number, copy in enumerate(log.copied) if number != also_lost])
    tier.states[deleting.segment_id] = SegmentState.DELETE_STARTED
    ((_, finding),) = report_of(tier).findings
    assert (finding.kind, finding.severity) == (Kind.MISSING_OFFSETS, severity)
    assert f"segment {deleting.segment_id} holds some, in DELETE_STARTED" in finding.message


def test_offsets_that_another_segment_holds_too_are_noted() -> None:
    log = copied_log()
    log.change_leader()
    log.copy(3, 6)
    findings = report_of(TierInMemory(log.copied)).findings
    assert {finding.kind for _, finding in findings} == {Kind.OVERLAP}
    assert {finding.severity for _, finding in findings} == {Severity.NOTE}
    doubled = {str(copy.metadata.segment_id) for copy in log.copied[3:6]}
    assert {segment_id for segment_id, _ in findings} == doubled


def test_segment_that_its_leader_lost_is_noted() -> None:
    log = copied_log()
    lost = log.copied[5].metadata
    log.change_leader(lost_batches=1)
    log.append("plain", records=3)
    log.copy(5, 6)
    ((segment_id, finding),) = report_of(TierInMemory(log.copied)).findings
    assert (segment_id, finding.kind) == (str(lost.segment_id), Kind.OUTSIDE_LINEAGE)


def test_lineage_that_can_not_be_read_is_damage_of_the_segment_that_tells_it() -> None:
    log = copied_log()
    tier = TierInMemory(log.copied)
    newest = log.copied[-1].metadata
    tier.files[newest.segment_id][SegmentFile.LEADER_EPOCH] = b"none"
    report = report_of(tier)
    ((segment_id, finding),) = report.findings
    assert (segment_id, finding.kind) == (str(newest.segment_id), Kind.LEADER_EPOCH_INDEX)
    assert len(report.finished) == 6


def test_store_out_of_reach_is_no_damage() -> None:
    log = copied_log()
    tier = TierInMemory(log.copied)
    newest = log.copied[-1].metadata
    tier.failing[newest.segment_id, SegmentFile.LEADER_EPOCH] = StorageUnavailable("the store does not answer")
    with pytest.raises(StorageUnavailable):
        report_of(tier)
