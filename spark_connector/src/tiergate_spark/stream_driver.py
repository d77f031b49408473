"""A stream's side on the driver, over one connection: where it begins, how far each micro-batch goes, its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, TypeVar

from tiergate_client import connect
from tiergate_spark.admission import admitted_stops, available_stops, is_behind
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.driver_calls import answered
from tiergate_spark.input_split import InputSplit
from tiergate_spark.offsets import PartitionNumbers, TopicPartition, named_offsets
from tiergate_spark.options import Service, SourceOptions
from tiergate_spark.partitions import tell_unmatched, tell_untiered
from tiergate_spark.planning import input_splits, located
from tiergate_spark.schema import Column
from tiergate_spark.stream_planning import has_offsets, plan_between
from tiergate_spark.stream_start import StreamStart, stream_start
from tiergate_spark.tier_watch import TieredPartition, TierWatch
from tiergate_spark.topic_selection import Assign, SubscribePattern

Answer = TypeVar("Answer")

_MOST_LAG_S: Final = 5.0
_PAUSE_S: Final = 0.2


class StreamDriver:
    """Lives as long as one run of a query. What has to outlive it is in Spark's checkpoint."""

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        service = options.service
        self._options = options
        self._columns = columns
        self._client = connect(service.target, segments=service.segments, access=service.access)
        self._watch = TierWatch(self._client, options)
        self._loss = DataLoss(is_error=options.fail_on_data_loss)
        self._told_untiered: frozenset[TopicPartition] = frozenset()
        self._has_told_unmatched = False
        self._start: StreamStart | None = None
        self._is_before_first_batch = False
        self._has_caught_up = False
        self._frozen: Mapping[TopicPartition, TieredPartition] | None = None
        self.last_available: PartitionNumbers | None = None
        """What could have been read when the last batch was cut."""

    def freeze(self) -> None:
        """From now on nothing new is seen: the stream ends at what there is now."""
        self._frozen = self._look()

    def start(self) -> PartitionNumbers:
        """Where a query without a finished batch begins; the same however often Spark asks."""
        if self._start is None:
            tier = self._tier()
            self._start = self._answered(
                lambda: stream_start(tier, self._client.storage, self._options, loss=self._loss)
            )
            self._is_before_first_batch = True
        return self._start.offsets

    def stops(self, starts: PartitionNumbers, *, limit: int | None) -> PartitionNumbers:
        """Where the batch that begins at `starts` ends."""
        self._catch_up_with(starts)
        awaited = named_offsets(self._options.starting)
        stops = available_stops(starts, self._tier(), loss=self._loss, awaited=awaited)
        self.last_available = stops
        if limit is not None:
            stops = admitted_stops(starts, stops, limit=limit)
        if self._start is not None and self._is_before_first_batch:
            # Spark does not keep where the first batch began, and asks again when a crash interrupts it. The latest
            # offset is then another one: what the first batch had read behind the old one would be lost.
            stops |= {place: starts[place] for place in self._start.at_latest}
        self._is_before_first_batch = False
        return stops

    def plan(self, starts: PartitionNumbers, stops: PartitionNumbers) -> list[InputSplit]:
        """The tasks of a batch. What is there is looked up anew.

        Retention may have been faster than the stream, and a segment that was copied again has another id, though no
        figure of its partition differs.
        """
        self._is_before_first_batch = False
        if not has_offsets(starts, stops):
            return []
        self._catch_up_with(stops)

        def ask() -> list[InputSplit]:
            plans = plan_between(starts, stops, client=self._client, options=self._options, loss=self._loss)
            return input_splits(plans, service=self._service, columns=self._columns, options=self._options)

        return self._answered(ask)

    def close(self) -> None:
        self._client.close()

    @cached_property
    def _service(self) -> Service:
        return located(self._client, self._options.service)

    def _tier(self) -> Mapping[TopicPartition, TieredPartition]:
        return self._look() if self._frozen is None else self._frozen

    def _catch_up_with(self, known: PartitionNumbers) -> None:
        """After a restart, the replica that answers first may be behind the one that answered last."""
        if self._has_caught_up:
            return
        self._has_caught_up = True  # the client's token sees to it from now on
        awaited = named_offsets(self._options.starting)
        tier = self._tier()
        deadline_s = time.monotonic() + _MOST_LAG_S
        while is_behind(known, tier, awaited=awaited) and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
            tier = self._look()
            if self._frozen is not None:
                self._frozen = tier

    def _look(self) -> Mapping[TopicPartition, TieredPartition]:
        tier = self._answered(self._watch.look)
        if isinstance(self._options.topics, Assign):
            untiered = self._options.topics.partitions - tier.keys()
            tell_untiered(untiered - self._told_untiered)  # at every trigger it would be the same again
            self._told_untiered |= untiered
        if isinstance(self._options.topics, SubscribePattern) and not tier and not self._has_told_unmatched:
            tell_unmatched(self._options.topics)
            self._has_told_unmatched = True
        return tier

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        return answered(ask, client=self._client, service=self._options.service)
