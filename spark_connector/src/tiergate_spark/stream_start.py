"""Where a new stream begins in each partition; one with a checkpoint begins where that says."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tiergate_client.interfaces import RemoteStorage
from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import (
    LatestOffsets,
    PartitionNumbers,
    TopicPartition,
    named_offsets,
    partition_name,
    partition_names,
)
from tiergate_spark.options import SourceOptions
from tiergate_spark.partitions import tell_untiered
from tiergate_spark.ranges import log_start_of, named_partitions, offset_range
from tiergate_spark.tier_watch import TieredPartition
from tiergate_spark.topic_selection import Assign

_log = logging.getLogger("tiergate_spark")


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The first offset of each partition of which something is tiered, or for which an offset is given."""

    offsets: PartitionNumbers
    at_latest: frozenset[TopicPartition]
    """Those that begin at the end as it was: asked again, it is a later one."""


def stream_start(
    tier: Mapping[TopicPartition, TieredPartition], storage: RemoteStorage, options: SourceOptions, *, loss: DataLoss
) -> StreamStart:
    """What the options say; at latest where they say nothing, as with Spark's Kafka source. Raises InvalidField.

    Offsets by partition need not name all. After a crash in the first batch Spark asks again, as if for the first time:
    a partition that came meanwhile must not stop the query. It is left out here, as those that come later are.
    """
    options = replace(options, starting=options.starting or LatestOffsets())
    named = named_partitions("starting", options.starting, options)
    places = tier.keys() if named is None else named[1]
    if unnamed := tier.keys() - places:
        _log.warning("the start of %s is not given: it is read from its beginning", partition_names(unnamed))
    if not isinstance(options.topics, Assign):  # of those that are assigned the driver tells
        tell_untiered(places - tier.keys())
    offsets = {place: start for place, start in named_offsets(options.starting).items() if place not in tier}
    at_latest = set()
    for place, tiered in tier.items():
        if place not in places:
            continue
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
    fact = f"the tier has {partition_name(place)} from offset {first} up to {stop}, not at the starting {start}"
    loss.report(f"{fact}: ask within", offsets=first - start if start < first else None)
    return min(max(start, first), stop)
