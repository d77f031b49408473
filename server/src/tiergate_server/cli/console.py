"""How answers look to a person: one style of tables, sizes and times for every command.

rich is imported where it is used, since help, completion and JSON do without it and are there sooner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from tiergate_client.values import SegmentState

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_WIDTH_OF_PIPES = 240
_NARROWEST_FOLD = 12
_STATE_STYLES = {
    SegmentState.COPY_STARTED: "yellow",
    SegmentState.COPY_FINISHED: "green",
    SegmentState.DELETE_STARTED: "red",
    SegmentState.DELETE_FINISHED: "dim",
}
_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column. It is left out of terminals narrower than `from_width`; only one that `folds` gets narrower."""

    title: str
    justify: Literal["left", "right"] = "left"
    from_width: int = 0
    style: str = ""
    folds: bool = False


def stdout_console() -> Console:
    """Into a pipe nothing is cut or coloured."""
    from rich.console import Console  # noqa: PLC0415

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_OF_PIPES
    return Console(file=sys.stdout, highlight=False, width=width)


def stderr_console() -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stderr, highlight=False)


def print_table(console: Console, columns: Iterable[Column], rows: Iterable[tuple[str | Text, ...]]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    chosen = [(place, column) for place, column in enumerate(columns) if column.from_width <= console.width]
    texts = [[_text(row[place]) for place, _ in chosen] for row in rows]
    for place, (_, column) in enumerate(chosen):
        widest = max((row[place].cell_len for row in texts), default=0)
        table.add_column(
            column.title,
            justify=column.justify,
            style=column.style,
            no_wrap=not column.folds,
            overflow="fold",
            min_width=min(widest, _NARROWEST_FOLD) if column.folds else max(widest, len(column.title)),
        )
    for text in texts:
        table.add_row(*text)
    _print(console, table)


def print_facts(console: Console, facts: Iterable[tuple[str, str | Text]]) -> None:
    """Names and values below each other. Long values go on in the next line."""
    from rich.table import Table  # noqa: PLC0415

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, _text(value))
    _print(console, table)


def _print(console: Console, table: Table) -> None:
    """Cells are filled up with spaces, which a program that reads a pipe has no use for.

    Not cropped: what does not fit goes on in the terminal's next line.
    """
    if console.is_terminal:
        console.print(table, crop=False)
        return
    with console.capture() as capture:
        console.print(table, crop=False)
    console.file.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _text(value: str | Text) -> Text:
    """Text as it is: names of topics and paths are no markup."""
    return styled(value, "") if isinstance(value, str) else value


def styled(text: str, style: str) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(text, style=style)


def state_text(state: SegmentState) -> Text:
    return styled(state.name.lower().replace("_", " "), _STATE_STYLES[state])


def time_text(timestamp_ms: int) -> str:
    """UTC, to the second. Times beyond the calendar, which records may carry, stay numbers."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // _MS_PER_S, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def offsets_text(start_offset: int | None, end_offset: int | None) -> str:
    return "-" if start_offset is None or end_offset is None else f"{start_offset} - {end_offset}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
