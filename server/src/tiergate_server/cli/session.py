"""What every command knows: where the server is, how to reach it, and in which form to answer."""

from __future__ import annotations

import enum
import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tiergate_client import Access
from tiergate_server.cli.connection import Connector, open_connection

DEFAULT_TARGET = "127.0.0.1:7400"


@dataclass(slots=True)
class Session:
    """One run of the command line; filled in while its arguments are parsed."""

    connector: Connector = open_connection
    target: str = DEFAULT_TARGET
    segments: str | None = None
    timeout_s: float = 30.0
    access: Access = "service"
    json: bool = False


class OutputFormat(enum.StrEnum):
    """For people, or for programs: then stdout holds one JSON document and nothing else.

    It is text, since typer 0.28 turns into text and back what a callback returns.
    """

    HUMAN = "human"
    JSON = "json"


def session_of(context: typer.Context) -> Session:
    session = context.find_root().obj
    if not isinstance(session, Session):
        raise TypeError("the command line runs with a Session as its object")
    return session


def _remember_format(context: typer.Context, value: OutputFormat) -> OutputFormat:
    """Early, so that also a complaint about other arguments has the form that was asked for."""
    session_of(context).json = value is OutputFormat.JSON
    return value


Output = Annotated[
    OutputFormat,
    typer.Option(
        "--output", "-o", help="Form of the answer.", callback=_remember_format, is_eager=True, show_default=True
    ),
]

SummaryFormat = Annotated[
    OutputFormat,
    typer.Option("--format", help="Form of the summary.", callback=_remember_format, is_eager=True, show_default=True),
]


def print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
