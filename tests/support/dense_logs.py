"""Logs in which every offset has a record, so that no batch can move anywhere and offsets can be counted."""

from __future__ import annotations

import random
from collections.abc import Sequence

from support.log_batches import LogBatch
from support.record_batches import MadeBatch, MadeRecord
from support.replicated_logs import ReplicatedLog


def dense_log(records: Sequence[int]) -> ReplicatedLog:
    """Batches of so many records each, in one segment; the value of each is its offset."""
    log = ReplicatedLog(random.Random(0))
    for count in records:
        base, time_ms = log.end_offset, log.now_ms
        made = MadeBatch(
            tuple(MadeRecord(number, value=b"%d" % (base + number)) for number in range(count)),
            base_offset=base,
            base_timestamp_ms=time_ms,
            max_timestamp_ms=time_ms,
        )
        rows = tuple((base + number, time_ms) for number in range(count))
        log.batches.append(LogBatch(0, base, base + count - 1, "plain", -1, rows, time_ms, made.encode()))
    log.copy(0, len(records))
    return log
