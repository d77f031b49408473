"""Where a new stream begins in each partition; one with a checkpoint begins where that says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tiergate_client.interfaces import RemoteStorage
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import LatestOffsets, PartitionNumbers, TopicPartition, partition_name
from tiergate_spark.options import SourceOptions
from tiergate_spark.ranges import check_named_partitions, log_start_of, offset_range
from tiergate_spark.tier_watch import TieredPartition


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The first offset of each partition of which something is tiered."""

    offsets: PartitionNumbers
    at_latest: frozenset[TopicPartition]
    """Those that begin at the end as it was: asked again, it is a later one."""


def stream_start(
    tier: Mapping[TopicPartition, TieredPartition], storage: RemoteStorage, options: SourceOptions, *, loss: DataLoss
) -> StreamStart:
    """What the options say; at latest where they say nothing, as with Spark's Kafka source. Raises InvalidField."""
    options = replace(options, starting=options.starting or LatestOffsets())
    check_named_partitions(set(tier), options)
    offsets: dict[TopicPartition, int] = {}
    at_latest = set()
    for place, tiered in tier.items():
        log_start = log_start_of(tiered.history.partition, options)
        start = offset_range(tiered.history, storage, options=options, log_start_offset=log_start).start
        if isinstance(start, int):
            offsets[place] = _within(place, start, tiered, loss)
        elif not tiered.is_empty:
            offsets[place] = tiered.earliest if start == "earliest" else tiered.latest
            if start == "latest":
                at_latest.add(place)
    return StreamStart(offsets, frozenset(at_latest))


def _within(place: TopicPartition, start: int, tiered: TieredPartition, loss: DataLoss) -> int:
    first, stop = tiered.earliest, tiered.stop_offset
    if tiered.is_empty or first <= start <= stop:
        return start
    loss.report(f"the tier has {partition_name(place)} from offset {first} up to {stop}, not at the starting {start}")
    return min(max(start, first), stop)
