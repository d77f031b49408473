"""Plans a read of a partition: which offsets there are to read, and the splits that readers take over.

Everything that a reader would have to ask for is asked here, once. Reading is done in `split_reading.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_bounds import AskedOffsets, ReadBounds, missing_within
from tiergate_client.records.read_split import ReadSplit
from tiergate_client.records.split_planning import SplitLimits, joined, planned_ranges
from tiergate_client.records.time_pruning import not_older
from tiergate_client.records.transaction_index import AbortedTransaction
from tiergate_client.records.transactions import aborted_transactions, last_stable_offset
from tiergate_client.records.undecided_transactions import undecided_transactions
from tiergate_client.values import TopicIdPartition

DEFAULT_SPLIT_BYTES: Final = 32 * 1024 * 1024


class IsolationLevel(enum.StrEnum):
    """Kafka's isolation.level."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The splits that together hold the records of [start_offset, stop_offset), ascending."""

    partition: TopicIdPartition
    start_offset: int
    stop_offset: int
    splits: tuple[ReadSplit, ...]
    holes: tuple[tuple[int, int], ...] = ()
    """(start, stop) of what was asked for and is not there; empty unless data loss is accepted."""


def plan_read(
    metadata: RemoteLogMetadata,
    storage: RemoteStorage,
    partition: TopicIdPartition,
    *,
    start_offset: int | None = None,
    stop_offset: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    max_records: int | None = None,
    log_start_offset: int | None = None,
    min_timestamp_ms: int | None = None,
    fail_on_data_loss: bool = True,
) -> PartitionPlan:
    """As plan_history, of the history that the metadata says now."""
    return plan_history(
        load_history(metadata, storage, partition),
        storage,
        start_offset=start_offset,
        stop_offset=stop_offset,
        isolation=isolation,
        split_bytes=split_bytes,
        max_records=max_records,
        log_start_offset=log_start_offset,
        min_timestamp_ms=min_timestamp_ms,
        fail_on_data_loss=fail_on_data_loss,
    )


def plan_history(
    history: PartitionHistory,
    storage: RemoteStorage,
    *,
    start_offset: int | None = None,
    stop_offset: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    max_records: int | None = None,
    log_start_offset: int | None = None,
    min_timestamp_ms: int | None = None,
    fail_on_data_loss: bool = True,
) -> PartitionPlan:
    """Plans a read of [start_offset, stop_offset); None is the earliest and the latest offset of the tier.

    A split has about `split_bytes`, and `max_records` offsets at most. Nothing below `log_start_offset` is read. Under
    read_committed the read ends before the first transaction that the tier does not decide. `min_timestamp_ms` leaves
    out what surely is older; what is left may be older still.

    Raises OffsetOutOfRange for an offset outside of the tier, or in a hole of it, unless data loss is accepted: then
    the plan names what is missing and goes round it.
    """
    limits = SplitLimits(split_bytes, max_records)
    asked = AskedOffsets(start_offset, stop_offset, log_start_offset)
    bounds = ReadBounds.of(asked, history, fail_on_data_loss=fail_on_data_loss)
    start, stop = bounds.start, bounds.stop
    is_committed_only = isolation == IsolationLevel.READ_COMMITTED
    if is_committed_only and start < stop:
        stop = max(start, min(stop, last_stable_offset(history, storage)))
    holes = missing_within(history, start, stop, fail_on_data_loss=fail_on_data_loss)
    pieces = list(history.within(start, stop))
    if min_timestamp_ms is not None:
        pieces = not_older(pieces, storage, min_timestamp_ms=min_timestamp_ms)
    ranges = planned_ranges(pieces, storage, limits=limits)
    splits = [ReadSplit(history.partition, run) for run in joined(ranges, limits=limits)]
    if is_committed_only and splits:
        aborted = _left_out(history, storage, splits, fail_on_data_loss=fail_on_data_loss)
        splits = _with_aborted(splits, aborted)
    return PartitionPlan(
        history.partition, start, stop, tuple(splits), (*bounds.missing_before, *holes, *bounds.missing_behind)
    )


def _left_out(
    history: PartitionHistory, storage: RemoteStorage, splits: Sequence[ReadSplit], *, fail_on_data_loss: bool
) -> list[AbortedTransaction]:
    """What no reader of committed data is given of any of the splits, ascending by last offset."""
    start, stop = splits[0].start_offset, splits[-1].stop_offset
    undecided = undecided_transactions(
        history, storage, start_offset=start, stop_offset=stop, fail_on_data_loss=fail_on_data_loss
    )
    aborted = aborted_transactions(history, storage, start_offset=start, stop_offset=stop)
    return sorted((*aborted, *undecided), key=lambda entry: entry.last_offset)


def _with_aborted(splits: Sequence[ReadSplit], aborted: Sequence[AbortedTransaction]) -> list[ReadSplit]:
    """To each split the transactions that touch it. Backwards, since a split shares most of those of the next one."""
    by_last_offset = list(aborted)
    touching: list[AbortedTransaction] = []
    complete = []
    for split in reversed(splits):
        while by_last_offset and by_last_offset[-1].last_offset >= split.start_offset:
            touching.append(by_last_offset.pop())
        touching = [entry for entry in touching if entry.first_offset < split.stop_offset]
        complete.append(replace(split, aborted=tuple(reversed(touching))))
    return complete[::-1]
