"""`tiergate metadata snapshot`: has the replica write a snapshot of its metadata now."""

from __future__ import annotations

import typer

from tiergate_client.sizes import size_text
from tiergate_server.cli.connection import connected
from tiergate_server.cli.console import stdout_console
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of


def snapshot(context: typer.Context, *, output: Output = OutputFormat.HUMAN) -> None:
    """Write a snapshot of the metadata now, and say where it is.

    It is taken by the replica that --target names.
    """
    with connected(session_of(context)) as tiergate:
        taken = tiergate.admin.take_snapshot()
    if output is OutputFormat.JSON:
        print_json({"location": taken.location, "size_bytes": taken.size_bytes})
    else:
        stdout_console().print(f"saved {taken.location} ({size_text(taken.size_bytes)})", markup=False, soft_wrap=True)
