"""What an export has to read of the tier: which topic is meant, and which offsets are new.

How gaps in what is exported are found is told in `export_gaps.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tiergate_client import Tiergate, TopicId
from tiergate_client.exit_codes import ExitCode
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.values import TopicIdPartition
from tiergate_spark.bounds import Bounds
from tiergate_spark.offsets import (
    EarliestOffsets,
    GivenOffsets,
    LatestOffsets,
    OffsetLimit,
    TimeForAll,
    TopicPartition,
    partition_names,
)
from tiergate_spark.option_names import ISOLATION_LEVEL
from tiergate_spark.options import SourceOptions, parse_options
from tiergate_spark.partitions import selected_partitions
from tiergate_spark.pipelines.connection import connected
from tiergate_spark.pipelines.export_coverage import Coverage, Run, without
from tiergate_spark.pipelines.export_gaps import runs_to_export
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.planning import PartitionRead, located, plan_reads

if TYPE_CHECKING:
    from tiergate_spark.options import Service
    from tiergate_spark.pipelines.export import ExportOptions

_AT_THE_SAME_TIME: Final = 8


@dataclass(frozen=True, slots=True)
class ExportedTopic:
    """A topic of the tier."""

    name: str
    topic_id: TopicId
    service: Service
    tiergate: Tiergate
    partitions: Mapping[TopicPartition, TopicIdPartition]

    def source_options(self, options: ExportOptions, *, partitions: Sequence[int]) -> dict[str, str]:
        """Of `format("tiergate")`, but for the offsets."""
        chosen = _source_options(self.name, options, self.service)
        chosen.pop("subscribe", None)
        return {
            **chosen,
            "assign": json.dumps({self.name: sorted(partitions)}),
            "topicId": str(self.topic_id),
        }


@contextmanager
def exported_topic(topic: str, options: ExportOptions) -> Iterator[ExportedTopic]:
    """Raises TopicNotFound; PipelineFailed when nothing of the topic is tiered."""
    with connected(options.service) as tiergate:
        chosen = _source_options(topic, options, options.service)
        if options.partitions:
            chosen.pop("subscribe")
            chosen["assign"] = json.dumps({topic: sorted(set(options.partitions))})
        if options.topic_id is not None:
            chosen["topicId"] = options.topic_id
        partitions, service = ridden_out(
            lambda: (
                selected_partitions(tiergate.metadata, parse_options(chosen)),
                located(tiergate, options.service),
            ),
            subject=topic,
        )
        if not partitions:
            wanted = partition_names((topic, number) for number in set(options.partitions)) or topic
            raise PipelineFailed(f"nothing of {wanted} is tiered; offload it first", exit_code=ExitCode.NOT_FOUND)
        if len(partitions) > 1 and (options.from_offset is not None or options.to_offset is not None):
            raise PipelineFailed(
                f"{topic} has {len(partitions)} partitions, each with offsets of its own: name one with --partition",
                exit_code=ExitCode.USAGE,
            )
        topic_id = next(iter(partitions.values())).topic_id
        yield ExportedTopic(topic, topic_id, service, tiergate, partitions)


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What a run is to export."""

    plans: list[PartitionPlan]
    """Of a partition in ascending order, with offsets between them that are exported already or missing."""
    skipped: Mapping[int, list[Run]]
    """What the tier lacks by partition, where the user accepts that."""


@dataclass(frozen=True, slots=True)
class _Reads:
    """What is to be read of a partition, ascending."""

    history: PartitionHistory
    reads: list[PartitionRead]


def plan_export(topic: ExportedTopic, options: ExportOptions, covered: Mapping[int, Coverage]) -> ExportPlan:
    """What of the wanted offsets is not `covered`, as far as the tier has it: gaps, and what is behind them all.

    Segments need not be finished in their order, so that offsets may come before those that were exported. Raises
    OffsetOutOfRange for missing ones, unless that is accepted now, or was by an earlier run.
    """
    parsed = parse_options(topic.source_options(options, partitions=[number for _, number in topic.partitions]))
    parsed = replace(parsed, starting_without_match="latest", ending=_ending(topic, options))

    def found(place: TopicPartition) -> _Reads:
        metadata, storage = topic.tiergate.metadata, topic.tiergate.storage
        history = load_history(metadata, storage, topic.partitions[place])
        wanted = replace(parsed, starting=_starting(place, options))
        known = covered.get(place[1])
        asked = [wanted] if known is None else _asked(place, history, storage, known, wanted)
        reads = [PartitionRead(history, storage, one, Bounds()) for one in asked]
        return _Reads(history, [one for one in reads if not one.is_empty])

    with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
        partitions = list(pool.map(found, _tiered(topic)))
    plans = plan_reads([read for one in partitions for read in one.reads], options=parsed)
    skipped = {} if options.fail_on_data_loss else _skipped([one.history for one in partitions], plans, options)
    return ExportPlan([run for plan in plans for run in around_holes(plan)], skipped)


def _skipped(
    histories: Sequence[PartitionHistory], plans: Iterable[PartitionPlan], options: ExportOptions
) -> dict[int, list[Run]]:
    """What is missing up to where the plans end. Behind it, too, for committed data: transactions may end there."""
    stops: dict[TopicIdPartition, int] = {}
    for plan in plans:
        stops[plan.partition] = max(stops.get(plan.partition, 0), plan.stop_offset)
    if options.isolation == "read_committed":
        stops = {one.partition: one.stop_offset for one in histories}
    return {one.partition.partition: one.holes(0, stops.get(one.partition, 0)) for one in histories}


def _asked(
    place: TopicPartition, history: PartitionHistory, storage: RemoteStorage, known: Coverage, wanted: SourceOptions
) -> list[SourceOptions]:
    """Options for each run that fills a gap, or is behind all that is exported."""
    return [
        replace(wanted, starting=GivenOffsets({place: start}), ending=GivenOffsets({place: stop}))
        for start, stop in runs_to_export(history, storage, known, options=wanted)
    ]


def around_holes(plan: PartitionPlan) -> list[PartitionPlan]:
    """A plan for each run of offsets that the tier has; a split is of one of them."""
    return [
        PartitionPlan(
            plan.partition, start, stop, tuple(split for split in plan.splits if start <= split.start_offset < stop)
        )
        for start, stop in without((plan.start_offset, plan.stop_offset), plan.holes)
    ]


def _tiered(topic: ExportedTopic) -> list[TopicPartition]:
    """Of a partition whose segments have all expired there is nothing to export, and nothing to complain about."""
    summaries = topic.tiergate.metadata.list_partitions(topic=topic.name)
    known = {one.partition for one in summaries if one.finished_segment_count}
    return [place for place, partition in topic.partitions.items() if partition in known]


def _starting(place: TopicPartition, options: ExportOptions) -> OffsetLimit:
    if options.from_time_ms is not None:
        return TimeForAll(options.from_time_ms)
    return EarliestOffsets() if options.from_offset is None else GivenOffsets({place: options.from_offset})


def _ending(topic: ExportedTopic, options: ExportOptions) -> OffsetLimit:
    if options.to_time_ms is not None:
        return TimeForAll(options.to_time_ms)
    if options.to_offset is not None:
        return GivenOffsets(dict.fromkeys(topic.partitions, options.to_offset))
    return LatestOffsets()


def _source_options(topic: str, options: ExportOptions, service: Service) -> dict[str, str]:
    chosen = {
        "target": service.target,
        "access": service.access,
        "subscribe": topic,
        "splitBytes": str(options.split_bytes),
        "includeHeaders": str(options.include_headers),
        "failOnDataLoss": str(options.fail_on_data_loss),
        ISOLATION_LEVEL: options.isolation,
    }
    return chosen if service.segments is None else {**chosen, "segments": service.segments}
