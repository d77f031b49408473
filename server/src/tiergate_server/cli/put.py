"""`tiergate put`: copies the rolled segments of Kafka partition directories."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tiergate_client.clock import system_clock
from tiergate_client.errors import TiergateError
from tiergate_client.ids import TopicId
from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.segment_lifecycle import copy_segment, find_begun_copy, find_finished_copies
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import stdout_console
from tiergate_server.cli.put_outcome import PutOutcome
from tiergate_server.cli.put_report import PutReport, put_report
from tiergate_server.cli.put_termination import terminated_like_interrupted
from tiergate_server.cli.put_topic_names import refuse_other_names
from tiergate_server.cli.put_warnings import about_other_content, about_unfinished
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of


def put(
    context: typer.Context,
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Kafka partition directories, such as data/orders-0."),
    ],
    *,
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Instead of the one in partition.metadata.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Instead of the one in the directory's name.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Instead of the one in the directory's name."),
    ] = None,
    broker_id: Annotated[int, typer.Option(metavar="N", help="Broker in whose name segments are written.")] = -1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and copy nothing.")] = False,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Copy the rolled segments of Kafka partition directories.

    The active segment stays behind. A segment is skipped when a finished one is there with the same first and last
    offset, the same leader epochs and the same checksum of the log; the other files are not compared. So an
    interrupted put can be repeated, and goes on in the middle of a large segment. A finished segment with the same
    offsets and another checksum of the log stays beside the new one, with a warning.
    """
    if partition is not None and len(directories) > 1:
        raise typer.BadParameter("it fits one directory only", param_hint="--partition")
    given_id = None if topic_id is None else TopicId.from_text(topic_id)
    opened = [
        PartitionDirectory.open(directory, topic_id=given_id, topic=topic, partition=partition)
        for directory in directories
    ]
    outcome = PutOutcome(dry_run)
    began = time.monotonic()
    total_bytes = sum(directory.rolled_size_bytes for directory in opened)
    with (
        terminated_like_interrupted(),
        connected(session_of(context)) as tiergate,
        put_report(total_bytes=total_bytes, quiet=output is OutputFormat.JSON) as report,
    ):
        refuse_other_names(tiergate, opened)
        for directory in opened:
            _put_directory(tiergate, directory, outcome, report, broker_id)
    seconds = time.monotonic() - began
    if output is OutputFormat.JSON:
        print_json(outcome.document(seconds))
    else:
        stdout_console().print(outcome.summary(seconds), markup=False, soft_wrap=True)


def _put_directory(
    tiergate: Tiergate, directory: PartitionDirectory, outcome: PutOutcome, report: PutReport, broker_id: int
) -> None:
    there = list(tiergate.metadata.list_segments(directory.partition))
    finished = [metadata for metadata in there if metadata.state is SegmentState.COPY_FINISHED]
    unfinished = [metadata for metadata in there if metadata.state is SegmentState.COPY_STARTED]
    for segment in directory.rolled_segments():
        report.begins(segment)
        begun = find_begun_copy(tiergate, segment, unfinished)
        for earlier in filter(segment.has_offsets_of, unfinished):
            if earlier is not begun:
                report.warn(about_unfinished(segment, earlier))
        present = find_finished_copies(tiergate, segment, finished)
        if present.same is not None:
            outcome.add_skipped(present.same)
            report.ends(segment, "already there", str(present.same.segment_id))
            continue
        copy = None if outcome.dry_run else _copy(tiergate, segment, report, begun=begun, broker_id=broker_id)
        warning = about_other_content(segment, present.others, copy=copy)
        outcome.add_copied(segment, copy=copy, warning=warning)
        done = "continued" if begun else "copied"
        report.ends(segment, done if copy else "would copy", str(copy.segment_id) if copy else "")
        if warning:
            report.warn(warning)


def _copy(
    tiergate: Tiergate,
    segment: LocalSegment,
    report: PutReport,
    *,
    begun: RemoteLogSegmentMetadata | None,
    broker_id: int,
) -> RemoteLogSegmentMetadata:
    try:
        return copy_segment(
            tiergate,
            segment,
            begun=begun,
            broker_id=broker_id,
            clock=system_clock,
            observe=report.sent,
            warn=lambda left: report.warn(f"{left} with `tiergate rm {left.segment_id}`"),
        )
    except (TiergateError, OSError) as error:
        error.add_note(f"cannot copy {segment.log}")
        raise
