"""`tiergate rm`: deletes segments, metadata and bytes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tiergate_client.clock import system_clock
from tiergate_client.ids import SegmentId
from tiergate_client.segment_lifecycle import delete_segment
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.connection import connected
from tiergate_server.cli.console import counted, offsets_text, stdout_console
from tiergate_server.cli.documents import segment_document
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of


def rm(
    context: typer.Context,
    segments: Annotated[
        list[str],
        typer.Argument(metavar="SEGMENT", help="Ids of segments, as `tiergate ls` shows them."),
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Delete segments, for good."""
    ids = [SegmentId.from_text(segment) for segment in segments]
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked here; confirm the deletion with --yes", param_hint="--yes")
    with connected(session_of(context)) as tiergate:
        found = [tiergate.metadata.get_segment(segment_id) for segment_id in dict.fromkeys(ids)]
        if not yes:
            _ask(found)
        for metadata in found:
            delete_segment(tiergate, metadata, clock=system_clock)
            if output is OutputFormat.HUMAN:
                stdout_console().print(f"deleted {_line(metadata)}", markup=False)
    if output is OutputFormat.JSON:
        print_json({"deleted": [segment_document(metadata) for metadata in found]})


def _ask(found: list[RemoteLogSegmentMetadata]) -> None:
    for metadata in found:
        typer.echo(_line(metadata), err=True)
    if not typer.confirm(f"Delete {counted(len(found), 'segment')} for good?", err=True):
        raise CommandFailed("nothing was deleted")


def _line(metadata: RemoteLogSegmentMetadata) -> str:
    name = f"{metadata.partition.topic}-{metadata.partition.partition}"
    offsets = offsets_text(metadata.start_offset, metadata.end_offset)
    return f"{metadata.segment_id}  {name}  {size_text(metadata.segment_size_bytes)}  {offsets}"
