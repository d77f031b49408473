"""Finds partition directories whose topic the tier knows under another name; a topic's id never changes its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiergate_client.ids import TopicId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.local_log.partition_directory import PartitionDirectory


@dataclass(frozen=True, slots=True)
class OtherName:
    """A directory, and the name under which the tier knows its topic."""

    directory: PartitionDirectory
    known_as: str

    def __str__(self) -> str:
        partition = self.directory.partition
        return (
            f"{self.directory.path}: the topic with id {partition.topic_id} is known as {self.known_as}, not as "
            f"{partition.topic}"
        )


def find_other_name(metadata: RemoteLogMetadata, directories: Iterable[PartitionDirectory]) -> OtherName | None:
    """Before the first copy: a wrong name would otherwise show only when a segment is announced."""
    known = _known_names(metadata)
    for directory in directories:
        partition = directory.partition
        by_partition = known.get(partition.topic_id, {})
        own = by_partition.get(partition.partition)
        names = [own] if own else sorted(by_partition.values())
        if names and partition.topic not in names:
            return OtherName(directory, names[0])
    return None


def _known_names(metadata: RemoteLogMetadata) -> dict[TopicId, dict[int, str]]:
    known: dict[TopicId, dict[int, str]] = {}
    for summary in metadata.list_partitions():
        partition = summary.partition
        known.setdefault(partition.topic_id, {})[partition.partition] = partition.topic
    return known
