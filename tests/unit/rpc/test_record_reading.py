"""Reads and lookups by time tell of a hole in which the record may have been, in the words of the wire."""

from __future__ import annotations

import random

import pytest

from support.replicated_logs import PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.values import SegmentState
from tiergate_server.rpc.record_reading import found_offset, planned
from tiergate_server.rpc.record_requests import AskedBounds


@pytest.fixture
def log() -> ReplicatedLog:
    """Of nine records, one a minute; those of the offsets 3 to 5 are not in the tier."""
    log = ReplicatedLog(random.Random(6))
    for number in range(9):
        log.append("commit", producer_id=number)
        log.now_ms += 60_000
    for first in (0, 3, 6):
        log.copy(first, first + 3)
    return log


@pytest.fixture
def tier(log: ReplicatedLog) -> TierInMemory:
    tier = TierInMemory(log.copied)
    tier.states[log.copied[1].metadata.segment_id] = SegmentState.COPY_STARTED
    return tier


def bounds(*, start_time_ms: int | None, stop_time_ms: int | None, skips_missing: bool) -> AskedBounds:
    return AskedBounds(
        start_offset=None,
        start_time_ms=start_time_ms,
        stop_offset=None,
        stop_time_ms=stop_time_ms,
        log_start_offset=None,
        isolation="read_uncommitted",
        skips_missing=skips_missing,
    )


@pytest.mark.parametrize("is_start", [True, False])
def test_read_by_a_time_that_may_be_in_a_hole_is_refused_unless_what_is_missing_is_skipped(
    log: ReplicatedLog, tier: TierInMemory, is_start: bool
) -> None:
    time_ms = log.batches[4].max_timestamp_ms
    start, stop = (time_ms, None) if is_start else (None, time_ms)

    def offsets(*, skips_missing: bool) -> tuple[int, int]:
        asked = bounds(start_time_ms=start, stop_time_ms=stop, skips_missing=skips_missing)
        plan = planned(tier.metadata, tier.storage, PARTITION, asked, split_bytes=None)
        return plan.start_offset, plan.stop_offset

    with pytest.raises(OffsetOutOfRange, match=r"offsets 3 to 5: restore it, .* \(skip_missing\)$") as refused:
        offsets(skips_missing=False)
    assert refused.value.details["missing"] == "3-5"
    assert offsets(skips_missing=True) == ((6, 9) if is_start else (0, 6))


def test_lookup_of_a_time_that_may_be_in_a_hole_is_refused_unless_what_is_missing_is_skipped(
    log: ReplicatedLog, tier: TierInMemory
) -> None:
    def found(number: int, *, log_start_offset: int | None = None, skips_missing: bool = False) -> int:
        answer = found_offset(
            tier.metadata,
            tier.storage,
            PARTITION,
            log.batches[number].max_timestamp_ms,
            isolation="read_uncommitted",
            log_start_offset=log_start_offset,
            skips_missing=skips_missing,
        )
        assert answer is not None
        return answer.offset

    with pytest.raises(OffsetOutOfRange, match=r"offsets 3 to 5: .* \(skip_missing\)$"):
        found(4)
    assert found(4, skips_missing=True) == 6
    assert found(2) == 2
    assert found(7, log_start_offset=6) == 7
