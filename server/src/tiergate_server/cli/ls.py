"""`tiergate ls`: the partitions that are known, or the segments of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiergate_client.ids import TopicId
from tiergate_client.sizes import size_text
from tiergate_client.values import PartitionSummary, RemoteLogSegmentMetadata
from tiergate_server.cli.completeness import tell_whether_partial
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import (
    Column,
    counted,
    offsets_text,
    print_table,
    state_text,
    stdout_console,
    time_text,
)
from tiergate_server.cli.documents import partition_document, stored_segment_document
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.cli.topic_choice import chosen_partitions

if TYPE_CHECKING:
    from rich.text import Text

_TOPIC_ID_COLUMN = Column("TOPIC ID", from_width=90, style="dim")
_PARTITION_COLUMNS = (
    Column("TOPIC", style="cyan", folds=True),
    Column("PARTITION", "right"),
    Column("SEGMENTS", "right"),
    Column("OFFSETS"),
    Column("SIZE", "right"),
)
_SEGMENT_COLUMNS = (
    Column("P", "right"),
    Column("OFFSETS"),
    Column("SIZE", "right"),
    Column("EPOCHS", from_width=90),
    Column("NEWEST RECORD", from_width=110),
    Column("STATE"),
    Column("SEGMENT", style="cyan"),
)


def ls(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="List the segments of this topic.")] = None,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition.")
    ] = None,
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Which topic, when several had the name.")] = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """List partitions, or the segments of a topic."""
    if topic is None and (partition is not None or topic_id is not None):
        raise typer.BadParameter("name the TOPIC, too", param_hint="--partition and --topic-id")
    wanted_id = None if topic_id is None else TopicId.from_text(topic_id)
    with connected(session_of(context)) as tiergate:
        if topic is None:
            summaries = list(tiergate.metadata.list_partitions())
            segments = []
        else:
            summaries = chosen_partitions(tiergate, topic, partition=partition, topic_id=wanted_id)
            segments = list(_segments(tiergate, summaries))
        is_partial = tell_whether_partial(tiergate, output)
    if output is OutputFormat.JSON:
        print_json(_document(topic, summaries, segments, is_partial))
    elif topic is None:
        _print_partitions(summaries, is_partial=bool(is_partial))
    else:
        _print_segments(topic, segments)


def _segments(tiergate: Tiergate, summaries: list[PartitionSummary]) -> Iterator[RemoteLogSegmentMetadata]:
    for summary in summaries:
        yield from tiergate.metadata.list_segments(summary.partition)


def _document(
    topic: str | None,
    summaries: list[PartitionSummary],
    segments: list[RemoteLogSegmentMetadata],
    is_partial: bool | None,
) -> dict[str, Any]:
    document: dict[str, Any] = {} if topic is None else {"topic": topic}
    document["partial"] = is_partial
    document["partitions"] = [partition_document(summary) for summary in summaries]
    if topic is not None:
        document["segments"] = [stored_segment_document(segment) for segment in segments]
    return document


def _print_partitions(summaries: list[PartitionSummary], *, is_partial: bool) -> None:
    console = stdout_console()
    if not summaries:
        advice = "Ask the other replicas." if is_partial else "`tiergate put DIR` copies a Kafka partition directory."
        console.print(f"No partitions {'here' if is_partial else 'yet'}. {advice}")
        return
    topics = {(summary.partition.topic, summary.partition.topic_id) for summary in summaries}
    is_name_enough = len(topics) == len({topic for topic, _ in topics})
    topic_id = _TOPIC_ID_COLUMN if is_name_enough else replace(_TOPIC_ID_COLUMN, from_width=0)
    print_table(console, (*_PARTITION_COLUMNS, topic_id), [_partition_row(summary) for summary in summaries])


def _partition_row(summary: PartitionSummary) -> tuple[str, ...]:
    unfinished = summary.segment_count - summary.finished_segment_count
    return (
        summary.partition.topic,
        str(summary.partition.partition),
        f"{summary.finished_segment_count}" + (f" (+{unfinished})" if unfinished else ""),
        offsets_text(summary.start_offset, summary.end_offset) if summary.ready else "not ready",
        size_text(summary.finished_size_bytes),
        str(summary.partition.topic_id),
    )


def _print_segments(topic: str, segments: list[RemoteLogSegmentMetadata]) -> None:
    console = stdout_console()
    if not segments:
        console.print(f"No segments of {topic}.", markup=False)
        return
    print_table(console, _SEGMENT_COLUMNS, [_segment_row(segment) for segment in segments])
    total = size_text(sum(segment.segment_size_bytes for segment in segments))
    console.print(f"{counted(len(segments), 'segment')}, {total}", style="dim")


def _segment_row(segment: RemoteLogSegmentMetadata) -> tuple[str | Text, ...]:
    return (
        str(segment.partition.partition),
        offsets_text(segment.start_offset, segment.end_offset),
        size_text(segment.segment_size_bytes),
        ", ".join(str(epoch) for epoch, _ in segment.segment_leader_epochs),
        time_text(segment.max_timestamp_ms),
        state_text(segment.state),
        str(segment.segment_id),
    )
