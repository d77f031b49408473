"""Plans a micro-batch on the driver: exactly the offsets between two places in the checkpoint, whatever came since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_spark.bounds import Bounds
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import GivenOffsets, PartitionNumbers, TopicPartition, partition_name
from tiergate_spark.options import SourceOptions
from tiergate_spark.planning import PartitionRead, plan_reads
from tiergate_spark.tier_watch import TieredPartition


def has_offsets(starts: PartitionNumbers, stops: PartitionNumbers) -> bool:
    """Whether there is anything to read; see `available_stops` on partitions that have no start yet."""
    return any(starts.get(place, stop) < stop for place, stop in stops.items())


def plan_between(
    starts: PartitionNumbers,
    stops: PartitionNumbers,
    *,
    tier: Mapping[TopicPartition, TieredPartition],
    storage: RemoteStorage,
    options: SourceOptions,
    loss: DataLoss,
) -> list[PartitionPlan]:
    """Raises OffsetOutOfRange when some of the offsets are not in the tier any more, unless loss is accepted."""
    asked = replace(options, starting=GivenOffsets(starts), ending=GivenOffsets(stops))
    reads = []
    for place, stop in stops.items():
        if starts.get(place, stop) < stop:
            if place in tier:
                reads.append(PartitionRead(tier[place].history, storage, asked, Bounds()))
            else:
                loss.report(f"{partition_name(place)} is not in the tier any more, or not asked for")
    plans = plan_reads(reads, options=options)
    for plan in plans:
        place = plan.partition.topic, plan.partition.partition
        if plan.stop_offset < stops[place]:  # under read_committed the end is a decided one only as long as it is there
            loss.report(f"{partition_name(place)} can be read up to {plan.stop_offset} now, not up to {stops[place]}")
    return plans
