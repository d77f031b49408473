"""What an export has to read of the tier: which topic is meant, and which offsets are new."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tiergate_client import Tiergate, TopicId
from tiergate_client.exit_codes import ExitCode
from tiergate_client.records.read_plan import PartitionPlan
from tiergate_client.values import TopicIdPartition
from tiergate_spark.bounds import Bounds
from tiergate_spark.offsets import (
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
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.planning import located, plan_partitions

if TYPE_CHECKING:
    from tiergate_spark.options import Service
    from tiergate_spark.pipelines.export import ExportOptions


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
        partitions = selected_partitions(tiergate.metadata, parse_options(chosen))
        if not partitions:
            wanted = partition_names((topic, number) for number in set(options.partitions)) or topic
            raise PipelineFailed(f"nothing of {wanted} is tiered; offload it first", exit_code=ExitCode.NOT_FOUND)
        if len(partitions) > 1 and (options.from_offset is not None or options.to_offset is not None):
            raise PipelineFailed(
                f"{topic} has {len(partitions)} partitions, each with offsets of its own: name one with --partition",
                exit_code=ExitCode.USAGE,
            )
        topic_id = next(iter(partitions.values())).topic_id
        yield ExportedTopic(topic, topic_id, located(tiergate, options.service), tiergate, partitions)


def plan_export(topic: ExportedTopic, options: ExportOptions, stops: Mapping[int, int]) -> list[PartitionPlan]:
    """The offsets behind `stops`, which are those that earlier runs have exported by partition."""
    tiered = _tiered(topic)
    parsed = parse_options(topic.source_options(options, partitions=[number for _, number in topic.partitions]))
    parsed = replace(parsed, starting_without_match="latest", ending=_ending(topic, options))
    begun = {place: stops[place[1]] for place in tiered if place[1] in stops}
    fresh = [place for place in tiered if place[1] not in stops]
    return [
        *_planned(topic, list(begun), replace(parsed, starting=GivenOffsets(begun), may_end_before_start=True)),
        *_planned(topic, fresh, replace(parsed, starting=_starting(fresh, options))),
    ]


def _planned(topic: ExportedTopic, places: Sequence[TopicPartition], options: SourceOptions) -> list[PartitionPlan]:
    partitions = [topic.partitions[place] for place in places]
    return plan_partitions(topic.tiergate, partitions, options=options, bounds=Bounds())


def _tiered(topic: ExportedTopic) -> list[TopicPartition]:
    """Of a partition whose segments have all expired there is nothing to export, and nothing to complain about."""
    summaries = topic.tiergate.metadata.list_partitions(topic=topic.name)
    known = {one.partition for one in summaries if one.finished_segment_count}
    return [place for place, partition in topic.partitions.items() if partition in known]


def _starting(fresh: Sequence[TopicPartition], options: ExportOptions) -> OffsetLimit | None:
    if options.from_time_ms is not None:
        return TimeForAll(options.from_time_ms)
    return None if options.from_offset is None else GivenOffsets(dict.fromkeys(fresh, options.from_offset))


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
