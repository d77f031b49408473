"""How far a command is that cannot know how much there is to do: a line that counts, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tiergate_server.cli.console import stderr_console

Tell = Callable[[int, str], None]
"""Takes how many there were so far, and what else there is to say."""


@contextmanager
def counter(doing: str, *, quiet: bool) -> Iterator[Tell]:
    """Disappears when it is done."""
    console = stderr_console()
    if quiet or not console.is_terminal:
        yield lambda _count, _more: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:.0f}, {task.fields[more]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=None, more="")
        yield lambda count, more: progress.update(task, completed=count, more=more)
