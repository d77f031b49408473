"""What the record service does with segments: plans, reads and lookups. It speaks no protocol.

Imported when the first call comes: numba and pyarrow take a second, which the start of a plane does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tiergate_client.errors import InvalidField, OffsetOutOfRange
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_bounds import LOSS_IS_ACCEPTED_BY
from tiergate_client.records.read_plan import DEFAULT_SPLIT_BYTES, IsolationLevel, PartitionPlan, plan_history
from tiergate_client.records.read_split import ReadSplit
from tiergate_client.records.split_reading import raw_batches, read_split
from tiergate_client.records.time_lookup import TimestampedOffset, find_offset_by_time
from tiergate_client.records.time_pruning import is_older
from tiergate_client.records.transactions import last_stable_offset
from tiergate_client.values import TopicIdPartition
from tiergate_server.rpc.plan_size import require_few_splits
from tiergate_server.rpc.record_requests import AskedBounds

_ALWAYS: Final = ("offset", "timestamp", "timestamp_type")
# Who reads alone wants the indexes of no segment but the first and the last to be fetched before his first record.
UNCUT_BYTES: Final = 2**62


def planned(
    metadata: RemoteLogMetadata,
    storage: RemoteStorage,
    partition: TopicIdPartition,
    bounds: AskedBounds,
    *,
    split_bytes: int | None,
    split_records: int | None = None,
    most_splits: int | None = None,
    min_timestamp_ms: int | None = None,
) -> PartitionPlan:
    """Raises LimitExceeded, before segments are asked for where to cut them, when that would be too many splits."""
    history = load_history(metadata, storage, partition)
    split_bytes = split_bytes or DEFAULT_SPLIT_BYTES
    with _in_words_of_the_wire():
        start_offset = _start(history, storage, bounds)
        stop_offset = _stop(history, storage, bounds, start_offset)
        if most_splits is not None:
            stop = history.stop_offset if stop_offset is None else stop_offset
            pieces = (
                piece
                for piece in history.within(max(start_offset or 0, bounds.log_start_offset or 0), stop)
                if min_timestamp_ms is None or not is_older(piece.segment, min_timestamp_ms)
            )
            require_few_splits(pieces, split_bytes=split_bytes, split_records=split_records, most=most_splits)
        return plan_history(
            history,
            storage,
            start_offset=start_offset,
            stop_offset=stop_offset,
            isolation=IsolationLevel(bounds.isolation),
            split_bytes=split_bytes,
            max_records=split_records,
            log_start_offset=bounds.log_start_offset,
            min_timestamp_ms=min_timestamp_ms,
            fail_on_data_loss=not bounds.skips_missing,
        )


@contextmanager
def _in_words_of_the_wire() -> Iterator[None]:
    """The way out of an OffsetOutOfRange has another name there than it has in Python."""
    try:
        yield
    except OffsetOutOfRange as error:
        message = error.message.replace(LOSS_IS_ACCEPTED_BY, "skip_missing")
        raise OffsetOutOfRange(message, details=error.details) from error


def _start(history: PartitionHistory, storage: RemoteStorage, bounds: AskedBounds) -> int | None:
    if bounds.start_time_ms is None:
        return bounds.start_offset
    found = _by_time(history, storage, bounds.start_time_ms, bounds)
    # The log may have been cut behind everything that is tiered: nothing is read then, as from a time without records.
    return max(history.stop_offset if found is None else found.offset, bounds.log_start_offset or 0)


def _stop(history: PartitionHistory, storage: RemoteStorage, bounds: AskedBounds, start: int | None) -> int | None:
    stop = bounds.stop_offset
    if bounds.stop_time_ms is not None:
        found = _by_time(history, storage, bounds.stop_time_ms, bounds)
        stop = None if found is None else found.offset
    # What is found by a time may lie on the wrong side of the other end: timestamps need not ascend.
    return None if stop is None else max(stop, start or 0)


def _by_time(
    history: PartitionHistory, storage: RemoteStorage, timestamp_ms: int, bounds: AskedBounds
) -> TimestampedOffset | None:
    return find_offset_by_time(
        history,
        storage,
        timestamp_ms,
        start_offset=bounds.log_start_offset or 0,
        fail_on_data_loss=not bounds.skips_missing,
    )


def found_offset(
    metadata: RemoteLogMetadata,
    storage: RemoteStorage,
    partition: TopicIdPartition,
    timestamp_ms: int,
    *,
    isolation: str,
    log_start_offset: int | None,
    skips_missing: bool,
) -> TimestampedOffset | None:
    """As the broker's answer: to a reader of committed data nothing is known from the first open transaction on."""
    history = load_history(metadata, storage, partition)
    with _in_words_of_the_wire():
        found = find_offset_by_time(
            history,
            storage,
            timestamp_ms,
            start_offset=log_start_offset or 0,
            fail_on_data_loss=not skips_missing,
        )
    if found is None or isolation == IsolationLevel.READ_UNCOMMITTED:
        return found
    return found if found.offset < last_stable_offset(history, storage) else None


def resumed(split: ReadSplit, start_offset: int) -> ReadSplit:
    """The rest of a split. Its bytes are read from the same positions on: only the offsets before are left out."""
    if not split.start_offset <= start_offset <= split.stop_offset:
        raise InvalidField.of(
            "start_offset", f"{start_offset} is not within the split, {split.start_offset} to {split.stop_offset}"
        )
    ranges = tuple(
        replace(one, start_offset=max(one.start_offset, min(start_offset, one.stop_offset)))
        for one in split.ranges
        if one.stop_offset > start_offset
    )
    # One that ended before would make its producer look aborted, since its marker is not passed any more.
    aborted = tuple(one for one in split.aborted if one.last_offset >= start_offset)
    return ReadSplit(split.partition, ranges, aborted)


def record_batches(splits: tuple[ReadSplit, ...], storage: RemoteStorage, *, columns: tuple[str, ...]) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es with offset and timestamps, and the columns that are wanted besides."""
    for split in splits:
        yield from read_split(split, storage, columns=(*_ALWAYS, *columns))


def raw_runs(splits: tuple[ReadSplit, ...], storage: RemoteStorage) -> Iterator[bytes]:
    for split in splits:
        yield from raw_batches(split, storage)
