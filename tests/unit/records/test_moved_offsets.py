"""A batch's offset is not under its checksum: when it is wrong, a reader finds out by the batches around it."""

from __future__ import annotations

import random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from support.dense_logs import dense_log
from support.replicated_logs import PARTITION, sources
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import plan_read, read_split
from tiergate_client.segment_files import SegmentFile

_BATCHES: Final = 12
_OFFSET_BYTES: Final = 8


def read(
    tier: TierInMemory, start_offset: int, split_bytes: int, split_records: int | None
) -> tuple[list[tuple[int, bytes]], bool]:
    """What comes, and whether that is all."""
    plan = plan_read(
        tier.metadata,
        tier.storage,
        PARTITION,
        start_offset=start_offset,
        split_bytes=split_bytes,
        max_records=split_records,
    )
    found: list[tuple[int, bytes]] = []
    try:
        for split in plan.splits:
            for batch in read_split(split, tier.storage):
                found += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    except CorruptBatch:
        return found, False
    return found, True


@given(sources(), st.integers(1, 2000), st.none() | st.integers(1, 20), st.integers(-3, 3).filter(bool))
@settings(max_examples=400)
def test_batch_that_moved_is_refused_also_where_a_split_begins_or_ends_with_it(
    source: random.Random, split_bytes: int, split_records: int | None, distance: int
) -> None:
    log = dense_log([source.randint(1, 5) for _ in range(_BATCHES)])
    tier = TierInMemory(log.copied)
    (copy,) = log.copied
    start_offset = source.randint(0, copy.metadata.end_offset)
    sound, _ = read(tier, start_offset, split_bytes, split_records)
    assert [offset for offset, _ in sound] == list(range(start_offset, copy.metadata.end_offset + 1))
    moved = source.randrange(_BATCHES)
    at = sum(len(one.content) for one in log.batches[:moved])
    damaged = bytearray(copy.files[SegmentFile.LOG])
    base = log.batches[moved].base_offset + distance
    damaged[at : at + _OFFSET_BYTES] = base.to_bytes(_OFFSET_BYTES, "big", signed=True)
    tier.files[copy.metadata.segment_id][SegmentFile.LOG] = bytes(damaged)
    found, is_all = read(tier, start_offset, split_bytes, split_records)
    assert found == sound[: len(found)]
    assert not is_all or found == sound
