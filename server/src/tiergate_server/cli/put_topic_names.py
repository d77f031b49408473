"""Refuses to put a topic under another name than the one it has; a topic's id never changes its name."""

from __future__ import annotations

from collections.abc import Iterable

from tiergate_client.ids import TopicId
from tiergate_server.cli.connection import Tiergate
from tiergate_server.cli.failures import CommandFailed, ExitCode
from tiergate_server.kafka_files.partition_directory import PartitionDirectory


def refuse_other_names(tiergate: Tiergate, directories: Iterable[PartitionDirectory]) -> None:
    """Before the first copy: a wrong name would otherwise show only when a segment is announced."""
    known = _known_names(tiergate)
    for directory in directories:
        partition = directory.partition
        by_partition = known.get(partition.topic_id, {})
        own = by_partition.get(partition.partition)
        names = [own] if own else sorted(by_partition.values())
        if names and partition.topic not in names:
            raise CommandFailed(
                f"{directory.path}: the topic with id {partition.topic_id} is known as {names[0]}, not as "
                f"{partition.topic}; put it with `--topic {names[0]}`",
                exit_code=ExitCode.REFUSED,
            )


def _known_names(tiergate: Tiergate) -> dict[TopicId, dict[int, str]]:
    known: dict[TopicId, dict[int, str]] = {}
    for summary in tiergate.metadata.list_partitions():
        partition = summary.partition
        known.setdefault(partition.topic_id, {})[partition.partition] = partition.topic
    return known
