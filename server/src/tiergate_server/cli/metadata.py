"""`tiergate metadata …`: what an operator does with the metadata log and with one replica of the metadata plane."""

from __future__ import annotations

import typer

from tiergate_server.cli.metadata_assignment import assignment
from tiergate_server.cli.metadata_copy import copy
from tiergate_server.cli.metadata_dump import dump
from tiergate_server.cli.metadata_snapshot import snapshot
from tiergate_server.cli.metadata_watch import watch

metadata = typer.Typer(
    name="metadata",
    help="Look into the metadata log, watch it, copy it; change what a replica hosts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for _command in (dump, watch, snapshot, assignment, copy):
    metadata.command()(_command)
