"""What of a partition is not exported yet: gaps that have come into the tier, and what is behind them all.

Offsets below the first of the tier are no matter: they were deleted by retention, or are still to come.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.exit_codes import ExitCode
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import PartitionHistory
from tiergate_client.records.open_transactions import open_transactions
from tiergate_client.records.transactions import aborted_transactions
from tiergate_spark.offsets import EarliestOffsets, LatestOffsets
from tiergate_spark.pipelines.export_coverage import Coverage, Run, common, without
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.planning import tell_skipped
from tiergate_spark.ranges import OffsetRange, offset_range

if TYPE_CHECKING:
    from tiergate_spark.options import SourceOptions

_log = logging.getLogger("tiergate_spark")


def runs_to_export(
    history: PartitionHistory, storage: RemoteStorage, known: Coverage, *, options: SourceOptions
) -> list[Run]:
    """What the options want and is not exported, but for what is missing and was passed over before; ascending.

    Raises OffsetOutOfRange when a time may be in what is missing; PipelineFailed when an earlier run has left out
    records because of what was missing, see `_left_out`.
    """
    if options.isolation == "read_committed":
        come = [first for first, _ in known.skipped if history.start_offset <= first < history.stop_offset]
        for offset in come:
            if not history.holes(offset, offset + 1):
                _require_nothing_left_out(history, storage, offset, known, options)
    stop = _wanted_stop(history, storage, known, options)
    missing = common(history.holes(history.start_offset, history.stop_offset), known.skipped)
    gaps = without((history.start_offset, known.stop_offset), known.runs)
    wanted = [(known.stop_offset, stop)] if known.stop_offset < stop else []
    if gaps:
        start = min(_wanted_start(history, storage, known, options), known.runs[0][0])  # what is exported was wanted
        wanted = [*common([(start, min(stop, history.stop_offset))], gaps), *wanted]
    tell_skipped([(history.partition, *run) for run in common(wanted, missing)])
    return [left for run in wanted for left in without(run, missing)]


def _wanted_start(history: PartitionHistory, storage: RemoteStorage, known: Coverage, options: SourceOptions) -> int:
    start = _range(history, storage, known, replace(options, ending=LatestOffsets())).start
    return _edges(history)[start] if isinstance(start, str) else start


def _wanted_stop(history: PartitionHistory, storage: RemoteStorage, known: Coverage, options: SourceOptions) -> int:
    stop = _range(history, storage, known, replace(options, starting=EarliestOffsets())).stop
    return _edges(history)[stop] if isinstance(stop, str) else stop


def _edges(history: PartitionHistory) -> dict[str, int]:
    return {"earliest": history.start_offset, "latest": history.stop_offset}


def _range(history: PartitionHistory, storage: RemoteStorage, known: Coverage, options: SourceOptions) -> OffsetRange:
    """A time may be in a hole of the history, which is no error when an earlier run has passed over that."""
    try:
        return offset_range(history, storage, options=options, log_start_offset=None)
    except OffsetOutOfRange as error:
        bounds = (hole.split("-") for hole in error.details["missing"].split(","))
        holes = [(int(first), int(last) + 1) for first, last in bounds]
        if any(left for hole in holes for left in without(hole, known.skipped)):
            raise
    return offset_range(history, storage, options=replace(options, fail_on_data_loss=False), log_start_offset=None)


def _require_nothing_left_out(
    history: PartitionHistory, storage: RemoteStorage, offset: int, known: Coverage, options: SourceOptions
) -> None:
    exported = max((stop for _, stop in known.runs if stop <= offset), default=0)
    producers = ", ".join(map(str, sorted(_left_out(history, storage, offset, exported=exported))))
    if not producers:
        return
    fact = (
        f"when the offsets of {history.partition} from {offset} on were missing, an export with --skip-missing left "
        f"out what the producers {producers} had written before them in transactions that prove not to be aborted"
    )
    if options.fail_on_data_loss:
        raise PipelineFailed(
            f"{fact}; export to another directory, or go on without it with --skip-missing", exit_code=ExitCode.REFUSED
        )
    _log.warning("%s: it stays left out", fact)


def _left_out(history: PartitionHistory, storage: RemoteStorage, offset: int, *, exported: int) -> set[int]:
    """The producers of transactions that began in what is exported, were open at the offset, and are not aborted.

    A reader that accepts the loss of data takes a transaction for aborted when its end may be missing.
    """
    before = tuple(history.within(history.start_offset, offset))
    opened = open_transactions(replace(history, pieces=before), storage)
    producers = {producer for producer, first in opened.items() if first < exported}
    if not producers:
        return set()
    first = min(opened[producer] for producer in producers)
    aborted = aborted_transactions(history, storage, start_offset=first, stop_offset=offset)
    return producers - {one.producer_id for one in aborted if one.first_offset < offset <= one.last_offset}
