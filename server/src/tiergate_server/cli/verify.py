"""`tiergate verify`: has stored segments read again and compared with what was copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer

from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import PartitionSummary, RemoteLogSegmentMetadata, SegmentState
from tiergate_server.cli.completeness import tell_whether_partial
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.cli.topic_choice import chosen_partitions
from tiergate_server.cli.verify_report import VerifyOutcome, verify_progress
from tiergate_server.cli.verify_run import verdicts


def verify(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Verify the segments of this topic.")] = None,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition.")
    ] = None,
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Which topic, when several had the name.")] = None,
    segments: Annotated[
        list[str] | None,
        typer.Option("--segment", metavar="SEGMENT", help="This segment, as `tiergate ls` shows it; may be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every segment of every topic.")] = False,
    parallel: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Segments at the same time.")] = 4,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Verify stored segments: read them again, where they are stored, and compare.

    Finished segments only. Ends with exit code 1 and a report when anything differs or is missing.
    """
    if (topic is not None) + bool(segments) + everything != 1:
        raise typer.BadParameter("name a TOPIC, or a --segment, or --all", param_hint="TOPIC")
    if topic is None and (partition is not None or topic_id is not None):
        raise typer.BadParameter("name the TOPIC, too", param_hint="--partition and --topic-id")
    wanted_id = None if topic_id is None else TopicId.from_text(topic_id)
    ids = [SegmentId.from_text(segment) for segment in segments or ()]
    outcome = VerifyOutcome()
    is_partial = None
    with connected(session_of(context)) as tiergate:
        if ids:
            chosen = _Chosen.by_id(tiergate, ids)
        elif topic is None:
            chosen = _Chosen.of_partitions(tiergate, list(tiergate.metadata.list_partitions()))
        else:
            summaries = chosen_partitions(tiergate, topic, partition=partition, topic_id=wanted_id)
            chosen = _Chosen.of_partitions(tiergate, summaries)
        with (
            verify_progress(total_bytes=chosen.total_bytes, quiet=output is OutputFormat.JSON) as observe,
            closing(verdicts(tiergate, chosen.segments, parallel=parallel, observe=observe)) as answers,
        ):
            for verdict in answers:
                outcome.add(verdict)
        if not ids:
            is_partial = tell_whether_partial(tiergate, output)
    if output is OutputFormat.JSON:
        print_json({"partial": is_partial, **outcome.document()})
    else:
        outcome.print()
    if outcome.exit_code is not ExitCode.DONE:
        raise typer.Exit(outcome.exit_code)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Segments to be verified, listed while they are; and how much that is, for the bar."""

    segments: Iterable[RemoteLogSegmentMetadata]
    total_bytes: int

    @classmethod
    def by_id(cls, tiergate: Tiergate, ids: list[SegmentId]) -> _Chosen:
        found = [_finished(tiergate, segment_id) for segment_id in dict.fromkeys(ids)]
        return cls(found, sum(metadata.segment_size_bytes for metadata in found))

    @classmethod
    def of_partitions(cls, tiergate: Tiergate, summaries: list[PartitionSummary]) -> _Chosen:
        return cls(_finished_of(tiergate, summaries), sum(summary.finished_size_bytes for summary in summaries))


def _finished(tiergate: Tiergate, segment_id: SegmentId) -> RemoteLogSegmentMetadata:
    metadata = tiergate.metadata.get_segment(segment_id)
    if metadata.state is not SegmentState.COPY_FINISHED:
        raise CommandFailed(
            f"segment {segment_id} is in {metadata.state.name}, and only a finished copy can be verified; "
            "`tiergate ls TOPIC` lists the states",
            exit_code=ExitCode.REFUSED,
        )
    return metadata


def _finished_of(tiergate: Tiergate, summaries: list[PartitionSummary]) -> Iterator[RemoteLogSegmentMetadata]:
    for summary in summaries:
        for metadata in tiergate.metadata.list_segments(summary.partition):
            if metadata.state is SegmentState.COPY_FINISHED:
                yield metadata
