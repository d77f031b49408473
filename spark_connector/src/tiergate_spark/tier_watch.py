"""What the tier holds of the partitions of a stream, asked again at each trigger for as little as possible."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tiergate_client import Tiergate
from tiergate_client.records.history import PartitionHistory, load_history
from tiergate_client.records.transactions import last_stable_offset
from tiergate_client.values import PartitionSummary
from tiergate_spark.offsets import TopicPartition
from tiergate_spark.options import SourceOptions
from tiergate_spark.partitions import selected_summaries
from tiergate_spark.ranges import log_start_of

_AT_THE_SAME_TIME: Final = 8


@dataclass(frozen=True, slots=True)
class TieredPartition:
    """A partition's history, and where a reader of this isolation level may begin and has to end."""

    history: PartitionHistory
    earliest: int
    latest: int

    @property
    def is_empty(self) -> bool:
        """Where nothing is tiered, or nothing is left, there is no first offset: it is not 0."""
        return not self.history.pieces

    @property
    def stop_offset(self) -> int:
        return max(self.earliest, self.history.stop_offset)


class TierWatch:
    """Remembers histories: one is loaded again when the figures that the metadata plane lists of it have changed."""

    def __init__(self, client: Tiergate, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._seen: dict[TopicPartition, tuple[PartitionSummary, TieredPartition]] = {}

    def look(self) -> Mapping[TopicPartition, TieredPartition]:
        """In the order of names and numbers. Raises what `selected_summaries` raises."""
        summaries = selected_summaries(self._client.metadata, self._options)
        known = {place: self._seen[place] for place, one in summaries.items() if self._known(place) == one}
        changed = [one for place, one in summaries.items() if place not in known]
        if changed:
            with ThreadPoolExecutor(_AT_THE_SAME_TIME) as pool:
                loaded = list(pool.map(self._load, changed))
            known |= {_place(one): (one, tiered) for one, tiered in zip(changed, loaded, strict=True)}
        self._seen = known
        return {place: self._seen[place][1] for place in summaries}

    def _known(self, place: TopicPartition) -> PartitionSummary | None:
        return self._seen[place][0] if place in self._seen else None

    def _load(self, summary: PartitionSummary) -> TieredPartition:
        storage = self._client.storage
        history = load_history(self._client.metadata, storage, summary.partition)
        earliest = max(history.start_offset, log_start_of(summary.partition, self._options) or 0)
        is_committed_only = self._options.isolation == "read_committed"
        stop = last_stable_offset(history, storage) if is_committed_only else history.stop_offset
        return TieredPartition(history, earliest, max(earliest, stop))


def _place(summary: PartitionSummary) -> TopicPartition:
    return summary.partition.topic, summary.partition.partition
