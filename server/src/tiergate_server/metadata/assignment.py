"""Which metadata partitions a replica hosts, as people write it: `0-9,12` or `topic id:number`, separated by commas."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_server.metadata.event_log import EventLogRefused, MetadataEventLog
from tiergate_server.metadata.partitioner import metadata_partition_of


def parse_assignment(text: str) -> Callable[[MetadataEventLog], Collection[int]]:
    """What the text means for a log; which metadata partition holds a user partition depends on their number."""

    def assigned(log: MetadataEventLog) -> Collection[int]:
        wanted: set[int] = set()
        for item in text.split(","):
            wanted |= _partitions(item, log.partition_count)
        return wanted

    return assigned


def _partitions(item: str, count: int) -> set[int]:
    topic_id, colon, number = item.partition(":")
    if colon:
        try:
            return {metadata_partition_of(TopicId.from_text(topic_id), int(number), partition_count=count)}
        except InvalidField as complaint:
            raise EventLogRefused(f"metadata.assignment has {item!r}: {complaint.message}") from None
    first, _, last = item.partition("-")
    numbers = set(range(int(first), int(last or first) + 1))
    if not numbers or max(numbers) >= count:
        raise EventLogRefused(f"metadata.assignment has {item!r}, but the log has the partitions 0 to {count - 1}")
    return numbers


def parse_skip(text: str) -> list[tuple[int, int]]:
    """The (partition, offset) pairs of text such as 3:1500,4:20."""
    pairs = (pair.split(":") for pair in text.split(",") if pair)
    return [(int(partition), int(offset)) for partition, offset in pairs]
