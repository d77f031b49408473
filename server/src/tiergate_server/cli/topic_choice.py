"""Which partitions a person means who names a topic, maybe one of its partitions, maybe which topic of that name."""

from __future__ import annotations

from tiergate_client.errors import InvalidField, TopicNotFound
from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import TopicId
from tiergate_client.values import PartitionSummary
from tiergate_server.cli.connection import Tiergate
from tiergate_server.cli.failures import CommandFailed


def chosen_partitions(
    tiergate: Tiergate, topic: str, *, partition: int | None, topic_id: TopicId | None
) -> list[PartitionSummary]:
    """All partitions of a topic, or one. Raises when that is none, or when the name alone does not say which topic."""
    summaries = list(tiergate.metadata.list_partitions(topic=topic))
    if not summaries:
        raise TopicNotFound(f"every partition of the topic {topic} was deleted", details={"topic": topic})
    ids = sorted({str(summary.partition.topic_id) for summary in summaries})
    if topic_id is not None:
        if str(topic_id) not in ids:
            raise CommandFailed(
                f"no topic {topic} has the id {topic_id}; known: {', '.join(ids)}", exit_code=ExitCode.NOT_FOUND
            )
        summaries = [summary for summary in summaries if summary.partition.topic_id == topic_id]
    chosen = [summary for summary in summaries if partition in (None, summary.partition.partition)]
    if not chosen:
        known = ", ".join(map(str, sorted({summary.partition.partition for summary in summaries})))
        raise CommandFailed(
            f"nothing is known of partition {partition} of {topic}, only of {known}", exit_code=ExitCode.NOT_FOUND
        )
    _require_one_topic(topic, chosen)
    return chosen


def _require_one_topic(topic: str, chosen: list[PartitionSummary]) -> None:
    ids = sorted({str(summary.partition.topic_id) for summary in chosen})
    if len(ids) > 1:
        raise InvalidField(
            f"{topic} is the name of {len(ids)} topics, {' and '.join(ids)}; choose one with --topic-id",
            details={"field": "topic_id", "topic_ids": ",".join(ids)},
        )
