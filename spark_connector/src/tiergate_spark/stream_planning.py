"""Plans a micro-batch on the driver: exactly the offsets between two places in the checkpoint, whatever came since."""

from __future__ import annotations

from dataclasses import replace

from tiergate_client import Tiergate
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_spark.bounds import Bounds
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import GivenOffsets, PartitionNumbers, partition_name
from tiergate_spark.options import SourceOptions
from tiergate_spark.partitions import selected_summaries
from tiergate_spark.planning import plan_partitions


def has_offsets(starts: PartitionNumbers, stops: PartitionNumbers) -> bool:
    """Whether there is anything to read; see `available_stops` on partitions that have no start yet."""
    return any(starts.get(place, stop) < stop for place, stop in stops.items())


def plan_between(
    starts: PartitionNumbers,
    stops: PartitionNumbers,
    *,
    client: Tiergate,
    options: SourceOptions,
    loss: DataLoss,
) -> list[PartitionPlan]:
    """Raises OffsetOutOfRange when some of the offsets are not in the tier any more, unless loss is accepted."""
    asked = replace(options, starting=GivenOffsets(starts), ending=GivenOffsets(stops))
    tier = selected_summaries(client.metadata, options)
    partitions = []
    for place, stop in stops.items():
        start = starts.get(place, stop)
        if start < stop:
            if place in tier:
                partitions.append(tier[place].partition)
            else:
                fact = f"{partition_name(place)} is not in the tier any more, or not asked for"
                loss.report(fact, offsets=stop - start)
    return plan_partitions(client, partitions, options=asked, bounds=Bounds(), loss=loss)
