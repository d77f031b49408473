"""A segment that is deleted between the plan of a read and its tasks: an error, or skipped and told of."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace

import pytest

from support.replicated_logs import PARTITION, ReplicatedLog
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import SegmentNotFound
from tiergate_client.record_conversions import split_to_bytes
from tiergate_client.records import plan_read
from tiergate_spark import worker
from tiergate_spark.input_split import InputSplit
from tiergate_spark.options import Service
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.worker import read_input_split

COLUMNS = columns_of(source_schema(include_headers=False))
SEGMENTS = 3


def offsets_read(tier: TierInMemory, *, fail_on_data_loss: bool) -> list[int]:
    (split,) = plan_read(tier.metadata, tier.storage, PARTITION).splits
    del tier.files[tier.finished[1].metadata.segment_id]
    task = InputSplit(split_to_bytes(split), Service("unused:1", None, "auto"), COLUMNS, None, fail_on_data_loss)
    return [offset for batch in read_input_split(task) for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch) -> TierInMemory:
    log = ReplicatedLog(random.Random(2))
    for _ in range(SEGMENTS):
        log.append("plain", records=3)
    for number in range(SEGMENTS):
        log.copy(number, number + 1)
    tier = TierInMemory(log.copied)
    monkeypatch.setattr(worker, "worker_client", lambda _service: SimpleNamespace(storage=tier.storage))
    return tier


def test_it_is_an_error(tier: TierInMemory) -> None:
    with pytest.raises(SegmentNotFound):
        offsets_read(tier, fail_on_data_loss=True)


def test_it_is_skipped_and_told_of_where_loss_is_accepted(tier: TierInMemory, caplog: pytest.LogCaptureFixture) -> None:
    first, gone, last = (copy.batches[0] for copy in tier.finished)
    with caplog.at_level(logging.WARNING):
        found = offsets_read(tier, fail_on_data_loss=False)
    assert found == [offset for batch in (first, last) for offset, _ in batch.rows]
    (told,) = caplog.messages
    assert f"offsets {gone.base_offset} to {gone.last_offset} of {PARTITION} is skipped" in told
