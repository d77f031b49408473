"""The partitions in the tier that a selection of topics means."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from tiergate_client.errors import InvalidField, TopicNotFound
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import PartitionSummary, TopicIdPartition
from tiergate_spark.offsets import TopicPartition, partition_names
from tiergate_spark.options import SourceOptions
from tiergate_spark.topic_selection import Assign, Subscribe, SubscribePattern

_log = logging.getLogger("tiergate_spark")


def selected_partitions(metadata: RemoteLogMetadata, options: SourceOptions) -> dict[TopicPartition, TopicIdPartition]:
    """As selected_summaries; tells of what is asked for and not there."""
    chosen = {place: summary.partition for place, summary in selected_summaries(metadata, options).items()}
    if isinstance(options.topics, Assign):
        tell_untiered(options.topics.partitions - chosen.keys())
    if isinstance(options.topics, SubscribePattern) and not chosen:
        tell_unmatched(options.topics)
    return chosen


def selected_summaries(metadata: RemoteLogMetadata, options: SourceOptions) -> dict[TopicPartition, PartitionSummary]:
    """In the order of names and numbers.

    Raises TopicNotFound for a name that the tier does not know, InvalidField for a name with several ids of which none
    is chosen.
    """
    match options.topics:
        case Subscribe(names):
            found = [one for name in names for one in partitions_of(metadata, name)]
        case SubscribePattern() as pattern:
            found = [one for one in metadata.list_partitions() if pattern.matches(one.partition.topic)]
        case Assign(wanted):
            names = tuple(sorted({topic for topic, _ in wanted}))
            found = [one for name in names for one in partitions_of(metadata, name)]
    chosen = _one_id_per_name(found, options.topic_ids)
    if isinstance(options.topics, Assign):
        chosen = {place: one for place, one in chosen.items() if place in options.topics.partitions}
    return dict(sorted(chosen.items()))


def tell_untiered(places: Collection[TopicPartition]) -> None:
    """Partitions that the user names and the tier does not know: quiet ones have no rolled segment yet."""
    if places:
        _log.warning("nothing of %s is tiered: it is read as empty", partition_names(places))


def tell_unmatched(selection: SubscribePattern) -> None:
    """A pattern that no topic matches is more often a mistake than meant; a stream waits for one."""
    _log.warning("no topic in the tier matches the subscribePattern %r: it is read as empty", selection.pattern)


def partitions_of(metadata: RemoteLogMetadata, name: str) -> list[PartitionSummary]:
    """Raises TopicNotFound, in words for whoever typed the name."""
    try:
        return list(metadata.list_partitions(topic=name))
    except TopicNotFound as error:
        near = get_close_matches(name, {one.partition.topic for one in metadata.list_partitions()}, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise TopicNotFound(
            f"the tier knows no topic {name!r}; {meant}`tiergate ls` lists what is there", details=error.details
        ) from None


def _one_id_per_name(
    found: Iterable[PartitionSummary], topic_ids: Mapping[str, str] | str | None
) -> dict[TopicPartition, PartitionSummary]:
    by_name: dict[str, dict[str, list[PartitionSummary]]] = {}
    for one in found:
        by_name.setdefault(one.partition.topic, {}).setdefault(str(one.partition.topic_id), []).append(one)
    _check_chosen_ids(by_name, topic_ids)
    chosen: dict[TopicPartition, PartitionSummary] = {}
    for name, by_id in by_name.items():
        wanted = topic_ids if isinstance(topic_ids, str) else (topic_ids or {}).get(name)
        candidates = by_id if wanted not in by_id else {wanted: by_id[wanted]}
        if len(candidates) > 1:
            raise InvalidField.of(
                "topicId", f"the tier knows {name!r} under {' and '.join(sorted(candidates))}; choose one of them"
            )
        chosen |= {(name, one.partition.partition): one for ones in candidates.values() for one in ones}
    return chosen


def _check_chosen_ids(by_name: Mapping[str, Mapping[str, object]], topic_ids: Mapping[str, str] | str | None) -> None:
    if isinstance(topic_ids, str) and not any(topic_ids in by_id for by_id in by_name.values()):
        raise InvalidField.of("topicId", f"no topic of this read has the id {topic_ids}; `tiergate ls` lists ids")
    if isinstance(topic_ids, Mapping):
        for name, wanted in topic_ids.items():
            if wanted not in by_name.get(name, {}):
                raise InvalidField.of("topicId", f"this read has no topic {name!r} with the id {wanted}")
