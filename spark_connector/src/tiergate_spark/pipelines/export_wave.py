"""Plans the read of a wave right before it, and makes sure that it still is what the export has planned to commit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tiergate_client import Tiergate, connect
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.records.history import load_history
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.values import TopicIdPartition
from tiergate_spark.bounds import Bounds
from tiergate_spark.driver_calls import answered
from tiergate_spark.input_split import InputSplit
from tiergate_spark.offsets import PartitionNumbers, named_offsets, partition_name
from tiergate_spark.options import SourceOptions
from tiergate_spark.partitions import selected_partitions
from tiergate_spark.planning import PartitionRead, input_splits, located, plan_reads
from tiergate_spark.schema import Column

_AT_THE_SAME_TIME: Final = 8


def plan_wave(options: SourceOptions, columns: tuple[Column, ...]) -> list[InputSplit]:
    """The tasks that read a wave. A segment that is deleted before they do fails them, whatever the options accept."""
    service = options.service
    with connect(service.target, segments=service.segments, access=service.access) as client:

        def ask() -> list[InputSplit]:
            partitions = list(selected_partitions(client.metadata, options).values())
            plans = whole_plans(client, partitions, options)
            strict = replace(options, fail_on_data_loss=True)
            return input_splits(plans, service=located(client, service), columns=columns, options=strict)

        return answered(ask, client=client, service=service)


def whole_plans(
    client: Tiergate, partitions: Sequence[TopicIdPartition], options: SourceOptions
) -> list[PartitionPlan]:
    """Plans for all that the options name. Raises OffsetOutOfRange when the tier has less of it now."""

    def found(partition: TopicIdPartition) -> PartitionRead:
        history = load_history(client.metadata, client.storage, partition)
        return PartitionRead(history, client.storage, options, Bounds())

    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
        plans = plan_reads(list(pool.map(found, partitions)), options=options)
    _require_whole(plans, named_offsets(options.starting), named_offsets(options.ending))
    return plans


def _require_whole(plans: Sequence[PartitionPlan], starts: PartitionNumbers, stops: PartitionNumbers) -> None:
    found = {
        (plan.partition.topic, plan.partition.partition): (plan.start_offset, plan.stop_offset, plan.holes)
        for plan in plans
    }
    for place, start in starts.items():
        if found.get(place) != (start, stops[place], ()):
            raise OffsetOutOfRange(
                f"the offsets {start} to {stops[place] - 1} of {partition_name(place)} were to be exported, and cannot "
                "be read as a whole any more: the tier has changed meanwhile; run the export again, it goes on from "
                "where it is"
            )
