"""What a batch read may not ask for, as Spark's Kafka source has it; streams have rules of their own."""

from __future__ import annotations

import logging

from tiergate_client.errors import InvalidField
from tiergate_spark.offsets import (
    EARLIEST,
    LATEST,
    EarliestOffsets,
    GivenOffsets,
    GivenTimes,
    LatestOffsets,
    PartitionNumbers,
    partition_name,
)
from tiergate_spark.options import SourceOptions

_log = logging.getLogger("tiergate_spark")


def check_batch_options(options: SourceOptions) -> None:
    """Raises InvalidField."""
    _check_starting(options)
    _check_ending(options)
    match options.starting, options.ending:
        case GivenOffsets(starts), GivenOffsets(stops):
            _check_order("startingOffsets", starts, "endingOffsets", stops)
        case GivenTimes(starts), GivenTimes(stops):
            _check_order("startingOffsetsByTimestamp", starts, "endingOffsetsByTimestamp", stops)
    if options.max_offsets_per_trigger is not None:
        _log.warning("maxOffsetsPerTrigger has no effect on a batch read")


def _check_starting(options: SourceOptions) -> None:
    if isinstance(options.starting, LatestOffsets):
        raise InvalidField.of("startingOffsets", "a batch read can not start at latest; give earliest or offsets")
    if isinstance(options.starting, GivenOffsets):
        for partition, offset in options.starting.offsets.items():
            if offset == LATEST:
                raise InvalidField.of(
                    "startingOffsets", f"a batch read can not start at latest (-1), as {partition_name(partition)} does"
                )


def _check_ending(options: SourceOptions) -> None:
    if isinstance(options.ending, EarliestOffsets):
        raise InvalidField.of("endingOffsets", "a batch read can not end at earliest; give latest or offsets")
    if isinstance(options.ending, GivenOffsets):
        for partition, offset in options.ending.offsets.items():
            if offset == EARLIEST:
                raise InvalidField.of(
                    "endingOffsets", f"a batch read can not end at earliest (-2), as {partition_name(partition)} does"
                )


def _check_order(start_option: str, starts: PartitionNumbers, stop_option: str, stops: PartitionNumbers) -> None:
    odd = sorted(starts.keys() ^ stops.keys())
    if odd:
        raise InvalidField.of(
            stop_option, f"it must name the partitions of {start_option}, but {partition_name(odd[0])} is in one only"
        )
    for partition, start in starts.items():
        stop = stops[partition]
        if 0 <= stop < start:
            raise InvalidField.of(
                stop_option, f"{stop} for {partition_name(partition)} is before the {start} of {start_option}"
            )
