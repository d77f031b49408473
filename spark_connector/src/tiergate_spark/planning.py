"""Plans a read on the driver: options and filters to splits that executors read on their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tiergate_client import Tiergate, connect
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.record_conversions import split_to_bytes
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_bounds import AskedOffsets, ReadBounds
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_history
from tiergate_client.values import TopicIdPartition
from tiergate_spark.bounds import Bounds, Interval
from tiergate_spark.driver_calls import answered
from tiergate_spark.input_split import InputSplit
from tiergate_spark.options import Service, SourceOptions
from tiergate_spark.partitions import selected_partitions
from tiergate_spark.ranges import check_named_partitions, log_start_of, offset_range
from tiergate_spark.schema import Column

_AT_THE_SAME_TIME: Final = 8
_UNDIVIDED: Final = 2**62
_MOST_TOLD: Final = 20

_log = logging.getLogger("tiergate_spark")


def plan_batch(options: SourceOptions, columns: tuple[Column, ...], *, bounds: Bounds) -> list[InputSplit]:
    """The tasks of a batch read, by partition and offset."""
    service = options.service
    with connect(service.target, segments=service.segments, access=service.access) as client:

        def ask() -> list[InputSplit]:
            places = selected_partitions(client.metadata, options)
            check_named_partitions(set(places), options)
            partitions = [partition for place, partition in places.items() if bounds.allow(place)]
            plans = plan_partitions(client, partitions, options=options, bounds=bounds)
            return input_splits(plans, service=located(client, service), columns=columns, options=options)

        return answered(ask, client=client, service=service)


def plan_partitions(
    client: Tiergate, partitions: Iterable[TopicIdPartition], *, options: SourceOptions, bounds: Bounds
) -> list[PartitionPlan]:
    """As the options and bounds say; side by side, since each partition needs a few answers of both planes."""

    def found(partition: TopicIdPartition) -> PartitionRead:
        history = load_history(client.metadata, client.storage, partition)
        return PartitionRead(history, client.storage, options, bounds)

    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
        reads = [one for one in pool.map(found, partitions) if not one.is_empty]
    return plan_reads(reads, options=options)


def plan_reads(reads: Sequence[PartitionRead], *, options: SourceOptions) -> list[PartitionPlan]:
    """Plans partitions side by side, into as many splits as are asked for at least."""
    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
        plans = list(pool.map(lambda one: one.plan(options.split_bytes), reads))
        fewest = options.min_partitions or 1
        total_bytes = sum(split.size_bytes for plan in plans for split in plan.splits)
        if sum(len(plan.splits) for plan in plans) < fewest and total_bytes > 0:
            plans = list(pool.map(lambda one: one.plan(max(1, total_bytes // fewest)), reads))
    _tell_skipped([(plan.partition, *hole) for plan in plans for hole in plan.holes])
    return plans


def _tell_skipped(holes: Sequence[tuple[TopicIdPartition, int, int]]) -> None:
    if holes:
        total = sum(stop - start for _, start, stop in holes)
        named = [f"{start} to {stop - 1} of {partition}" for partition, start, stop in holes[:_MOST_TOLD]]
        more = [f"{len(holes) - _MOST_TOLD} more ranges"] if len(holes) > _MOST_TOLD else []
        _log.warning("%d offsets are not in the tier and skipped: %s", total, ", ".join(named + more))


class PartitionRead:
    """What is to be read of one partition."""

    def __init__(
        self, history: PartitionHistory, storage: RemoteStorage, options: SourceOptions, bounds: Bounds
    ) -> None:
        self._history = history
        self._storage = storage
        self._options = options
        self._bounds = bounds
        self._log_start = log_start_of(history.partition, options)
        self._range = offset_range(history, storage, options=options, log_start_offset=self._log_start)

    @property
    def is_empty(self) -> bool:
        return self._range.is_empty

    def plan(self, split_bytes: int) -> PartitionPlan:
        start = None if isinstance(self._range.start, str) else self._range.start
        stop = None if isinstance(self._range.stop, str) else self._range.stop
        filtered = self._bounds.offsets
        if filtered == Interval():
            return self._planned(start, stop, split_bytes)
        # What is outside of the tier is an error where the options ask for it, and nothing where a filter does.
        there = self._checked_bounds(start, stop)
        start = max(there.start if start is None else start, filtered.lower or 0)
        stop = there.stop if stop is None else stop
        stop = stop if filtered.stop is None else min(stop, filtered.stop)
        if start >= stop:
            return PartitionPlan(self._history.partition, start, start, ())
        return self._planned(start, stop, split_bytes)

    def _checked_bounds(self, start: int | None, stop: int | None) -> ReadBounds:
        """What is there of the offsets that the options ask for. Raises what planning them all would raise."""
        history, is_loss_an_error = self._history, self._options.fail_on_data_loss
        asked = AskedOffsets(start, stop, self._log_start)
        try:
            bounds = ReadBounds.of(asked, history, fail_on_data_loss=is_loss_an_error)
        except OffsetOutOfRange as error:
            raise _in_words_of_spark(error) from None
        if is_loss_an_error and history.holes(bounds.start, history.stop_offset):
            self._planned(start, stop, _UNDIVIDED)  # it depends on the isolation level whether a hole matters
        return bounds

    def _planned(self, start: int | None, stop: int | None, split_bytes: int) -> PartitionPlan:
        times = (self._options.min_timestamp_ms, self._bounds.min_timestamp_ms)
        try:
            return plan_history(
                self._history,
                self._storage,
                start_offset=start,
                stop_offset=stop,
                isolation=IsolationLevel(self._options.isolation),
                split_bytes=split_bytes,
                max_records=self._options.max_records_per_partition,
                log_start_offset=self._log_start,
                min_timestamp_ms=max((time for time in times if time is not None), default=None),
                fail_on_data_loss=self._options.fail_on_data_loss,
            )
        except OffsetOutOfRange as error:
            raise _in_words_of_spark(error) from None


def _in_words_of_spark(error: OffsetOutOfRange) -> OffsetOutOfRange:
    """The way out has another name as an option of Spark than it has in Python."""
    message = error.message.replace("fail_on_data_loss=False", "failOnDataLoss=false")
    return OffsetOutOfRange(message, details=error.details)


def located(client: Tiergate, service: Service) -> Service:
    """With the segment plane's address, so that executors need not ask the metadata plane for it."""
    if service.segments is not None:
        return service
    return replace(service, segments=client.server_info().segments_address or None)


def input_splits(
    plans: Iterable[PartitionPlan], *, service: Service, columns: tuple[Column, ...], options: SourceOptions
) -> list[InputSplit]:
    return [
        InputSplit(split_to_bytes(split), service, columns, options.min_timestamp_ms)
        for plan in plans
        for split in plan.splits
    ]
