"""How far the next micro-batch of a stream goes, from where the last one ended and what the tier holds.

Nothing is asked here: what the tier holds is looked up in `tier_watch.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiergate_spark.data_loss import DataLoss
from tiergate_spark.offsets import PartitionNumbers, TopicPartition, partition_name
from tiergate_spark.tier_watch import TieredPartition


def available_stops(
    starts: PartitionNumbers,
    tier: Mapping[TopicPartition, TieredPartition],
    *,
    loss: DataLoss,
    awaited: PartitionNumbers | None = None,
) -> dict[TopicPartition, int]:
    """Where everything that there is would have been read. One that is still where it is `awaited` may come yet.

    A partition that was not there before is only noted, at its first offset, and read from the next batch on. So a
    batch that is planned again, after a restart, finds the start of each of its ranges in the checkpoint, whatever
    retention took away meanwhile. One that is gone, or ends before its place, keeps its place, lest anything is read
    twice when it comes back.
    """
    stops = dict(starts)
    for place, start in starts.items():
        if place not in tier:
            if start == (awaited or {}).get(place):
                continue
            loss.report(f"{partition_name(place)} is not in the tier any more, or not asked for")
        elif not tier[place].is_empty:
            stops[place] = _stop(place, start, tier[place], loss)
    new = {place: one.earliest for place, one in tier.items() if place not in starts and not one.is_empty}
    return stops | new


def is_behind(
    known: PartitionNumbers,
    tier: Mapping[TopicPartition, TieredPartition],
    *,
    awaited: PartitionNumbers | None = None,
) -> bool:
    """Whether a partition ends before what is known of it: who told of it may not have heard of the newest yet."""
    there = {place: one.stop_offset for place, one in tier.items()}
    return any(there.get(place, 0) < offset and offset != (awaited or {}).get(place) for place, offset in known.items())


def admitted_stops(starts: PartitionNumbers, stops: PartitionNumbers, *, limit: int) -> dict[TopicPartition, int]:
    """Not more than about `limit` offsets, divided in proportion to what each partition has left.

    As Spark's Kafka source does it: a partition that has any left is given one at least.
    """
    left = {place: stop - starts[place] for place, stop in stops.items() if starts.get(place, stop) < stop}
    total = sum(left.values())
    shares = {place: min(size, max(1, limit * size // total)) for place, size in left.items()}
    return {place: starts[place] + shares[place] if place in shares else stop for place, stop in stops.items()}


def _stop(place: TopicPartition, start: int, tiered: TieredPartition, loss: DataLoss) -> int:
    if start > tiered.stop_offset:  # another leader's log, which is shorter, or the newest segments were deleted
        fact = f"{partition_name(place)} ends at offset {tiered.stop_offset} now, but was read up to {start}"
        loss.report(f"{fact}, and nothing below is read again")
    return max(start, tiered.latest)
