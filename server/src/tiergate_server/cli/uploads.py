"""`tiergate uploads`: copies that were begun and are not complete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tiergate_client.ids import TopicId
from tiergate_client.sizes import size_text
from tiergate_client.upload_progress import UploadSummary
from tiergate_client.values import TopicIdPartition
from tiergate_server.cli.connection import connected
from tiergate_server.cli.console import Column, counted, print_table, stdout_console, time_text
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.cli.topic_choice import chosen_partitions

_COLUMNS = (
    Column("P", "right"),
    Column("KEPT", "right"),
    Column("OF", "right"),
    Column("BEGUN"),
    Column("STORE", from_width=110),
    Column("SEGMENT", style="cyan"),
)


def uploads(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Whose uploads.")],
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition.")
    ] = None,
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Which topic, when several had the name.")] = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """List copies that are not complete, running or abandoned. `tiergate rm` ends one."""
    wanted_id = None if topic_id is None else TopicId.from_text(topic_id)
    with connected(session_of(context)) as tiergate:
        chosen = chosen_partitions(tiergate, topic, partition=partition, topic_id=wanted_id)
        found = [
            (summary.partition, upload)
            for summary in chosen
            for upload in tiergate.storage.list_uploads(summary.partition)
        ]
    if output is OutputFormat.JSON:
        print_json({"topic": topic, "uploads": [_document(partition, upload) for partition, upload in found]})
    elif not found:
        stdout_console().print(f"No uploads of {topic} are under way.", markup=False)
    else:
        print_table(stdout_console(), _COLUMNS, [_row(partition, upload) for partition, upload in found])
        stdout_console().print(counted(len(found), "upload"), style="dim")


def _document(partition: TopicIdPartition, upload: UploadSummary) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "segment_id": str(upload.segment_id),
        "upload_digest": upload.upload_digest,
        "started_at_ms": upload.started_at_ms,
        "log_size_bytes": upload.log_size_bytes,
        "log_committed_bytes": upload.log_committed_bytes,
        "store": upload.store,
    }


def _row(partition: TopicIdPartition, upload: UploadSummary) -> tuple[str, ...]:
    return (
        str(partition.partition),
        size_text(upload.log_committed_bytes),
        size_text(upload.log_size_bytes),
        time_text(upload.started_at_ms),
        upload.store,
        str(upload.segment_id),
    )
