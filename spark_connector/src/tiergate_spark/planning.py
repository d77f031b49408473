"""Plans a read on the driver: options and filters to splits that executors read on their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tiergate_client import Tiergate, connect
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.record_conversions import split_to_bytes
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_bounds import AskedOffsets, ReadBounds
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_history
from tiergate_client.values import TopicIdPartition
from tiergate_spark.bounds import Bounds, Interval
from tiergate_spark.data_loss import DataLoss, in_words_of_spark
from tiergate_spark.driver_calls import answered
from tiergate_spark.input_split import InputSplit
from tiergate_spark.offsets import GivenOffsets, partition_name
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
            loss = DataLoss(is_error=options.fail_on_data_loss)
            plans = plan_partitions(client, partitions, options=options, bounds=bounds, loss=loss)
            return input_splits(plans, service=located(client, service), columns=columns, options=options)

        return answered(ask, client=client, service=service)


def plan_partitions(
    client: Tiergate,
    partitions: Iterable[TopicIdPartition],
    *,
    options: SourceOptions,
    bounds: Bounds,
    loss: DataLoss,
) -> list[PartitionPlan]:
    """As the options and bounds say; side by side, since each partition needs a few answers of both planes."""

    def found(partition: TopicIdPartition) -> PartitionRead:
        history = load_history(client.metadata, client.storage, partition)
        return PartitionRead(history, client.storage, options, bounds)

    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
        reads = [one for one in pool.map(found, partitions) if not one.is_empty]
    plans = plan_reads(reads, options=options)
    for read, plan in zip(reads, plans, strict=True):
        read.report_losses(plan, loss)
    return plans


def plan_reads(reads: Sequence[PartitionRead], *, options: SourceOptions) -> list[PartitionPlan]:
    """Plans partitions side by side, into as many splits as are asked for at least."""
    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:

        def planned(split_bytes: int, split_records: int | None) -> list[PartitionPlan]:
            return list(pool.map(lambda one: one.plan(split_bytes, split_records), reads))

        most_bytes, most_records = options.split_bytes, options.max_records_per_partition
        plans = planned(most_bytes, most_records)
        fewest = options.min_partitions or 1
        if 0 < _split_count(plans) < fewest:
            most_bytes = max(1, sum(split.size_bytes for plan in plans for split in plan.splits) // fewest)
            plans = planned(most_bytes, most_records)
        if 0 < _split_count(plans) < fewest:  # bytes are cut between batches alone, offsets anywhere
            wanted = sum(split.stop_offset - split.start_offset for plan in plans for split in plan.splits)
            plans = planned(most_bytes, max(1, wanted // fewest))
    tell_skipped([(plan.partition, *hole) for plan in plans for hole in plan.holes])
    return plans


def _split_count(plans: Sequence[PartitionPlan]) -> int:
    return sum(len(plan.splits) for plan in plans)


def tell_skipped(holes: Sequence[tuple[TopicIdPartition, int, int]]) -> None:
    """Of partitions, with their first offset and the one behind the last."""
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

    def plan(self, split_bytes: int, split_records: int | None) -> PartitionPlan:
        start = None if isinstance(self._range.start, str) else self._range.start
        stop = None if isinstance(self._range.stop, str) else self._range.stop
        filtered = self._bounds.offsets
        if filtered == Interval():
            return self._planned(start, stop, split_bytes, split_records)
        # What is outside of the tier is an error where the options ask for it, and nothing where a filter does.
        there = self._checked_bounds(start, stop)
        start = max(there.start if start is None else start, filtered.lower or 0)
        stop = there.stop if stop is None else stop
        stop = stop if filtered.stop is None else min(stop, filtered.stop)
        if start >= stop:
            return PartitionPlan(self._history.partition, start, start, ())
        return self._planned(start, stop, split_bytes, split_records)

    def report_losses(self, plan: PartitionPlan, loss: DataLoss) -> None:
        """Reports when all that is there ends before the start, or a plan for committed data before the named end.

        In the second case there is a transaction which is still open, or which was decided when a batch of a stream was
        cut and is not any more. The latest offset, and one that a time stands for, are where decided data ends: with
        them nothing is lost.
        """
        place = plan.partition.topic, plan.partition.partition
        if isinstance(self._range.start, int) and self._range.start > self._history.stop_offset:
            loss.report(
                f"{partition_name(place)} ends at offset {plan.stop_offset}, before the start {self._range.start}"
            )
        if not isinstance(self._options.ending, GivenOffsets) or not isinstance(self._range.stop, int):
            return
        filtered = self._bounds.offsets
        stop = self._range.stop if filtered.stop is None else min(self._range.stop, filtered.stop)
        asked = self._range.start if isinstance(self._range.start, int) else 0
        begin = max(plan.stop_offset, asked, filtered.lower or 0)
        missing = sum(hole_stop - max(start, begin) for start, hole_stop in plan.holes if hole_stop > begin)
        if undecided := max(0, stop - begin - missing):
            fact = f"{partition_name(place)} can be read up to {plan.stop_offset} now, not up to {stop}"
            loss.report(f"{fact}: a transaction is not decided in the tier", offsets=undecided)

    def _checked_bounds(self, start: int | None, stop: int | None) -> ReadBounds:
        """What is there of the offsets that the options ask for. Raises what planning them all would raise."""
        history, is_loss_an_error = self._history, self._options.fail_on_data_loss
        asked = AskedOffsets(start, stop, self._log_start)
        with in_words_of_spark():
            bounds = ReadBounds.of(asked, history, fail_on_data_loss=is_loss_an_error)
        if is_loss_an_error and history.holes(bounds.start, history.stop_offset):
            self._planned(start, stop, _UNDIVIDED, None)  # it depends on the isolation level whether a hole matters
        return bounds

    def _planned(
        self, start: int | None, stop: int | None, split_bytes: int, split_records: int | None
    ) -> PartitionPlan:
        times = (self._options.min_timestamp_ms, self._bounds.min_timestamp_ms)
        with in_words_of_spark():
            return plan_history(
                self._history,
                self._storage,
                start_offset=start,
                stop_offset=stop,
                isolation=IsolationLevel(self._options.isolation),
                split_bytes=split_bytes,
                max_records=split_records,
                log_start_offset=self._log_start,
                min_timestamp_ms=max((time for time in times if time is not None), default=None),
                fail_on_data_loss=self._options.fail_on_data_loss,
            )


def located(client: Tiergate, service: Service) -> Service:
    """With the segment plane's address, so that executors need not ask the metadata plane for it."""
    if service.segments is not None:
        return service
    return replace(service, segments=client.server_info().segments_address or None)


def input_splits(
    plans: Iterable[PartitionPlan], *, service: Service, columns: tuple[Column, ...], options: SourceOptions
) -> list[InputSplit]:
    return [
        InputSplit(split_to_bytes(split), service, columns, options.min_timestamp_ms, options.fail_on_data_loss)
        for plan in plans
        for split in plan.splits
    ]
