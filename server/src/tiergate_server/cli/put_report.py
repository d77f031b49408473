"""What a person sees of `tiergate put` while it works: a bar on a terminal, plain lines in a pipe, or nothing."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.sizes import size_text
from tiergate_server.cli.console import offsets_text, stdout_console
from tiergate_server.cli.notices import warn
from tiergate_server.cli.session import OutputFormat
from tiergate_server.cli.transfers import transfer_progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class PutReport(ABC):
    """Follows a put from segment to segment."""

    @abstractmethod
    def begins(self, segment: LocalSegment) -> None: ...

    @abstractmethod
    def sent(self, size_bytes: int) -> None:
        """How much of the present segment was sent so far."""

    @abstractmethod
    def ends(self, segment: LocalSegment, outcome: str, segment_id: str) -> None: ...

    def warn(self, message: str) -> None:
        warn(message, OutputFormat.HUMAN)


class _Silent(PutReport):
    """For programs: stdout and stderr hold nothing but JSON."""

    def begins(self, segment: LocalSegment) -> None: ...
    def sent(self, size_bytes: int) -> None: ...
    def ends(self, segment: LocalSegment, outcome: str, segment_id: str) -> None: ...

    def warn(self, message: str) -> None:
        warn(message, OutputFormat.JSON)


class _Lines(PutReport):
    def __init__(self, console: Console) -> None:
        self._console = console

    def begins(self, segment: LocalSegment) -> None: ...
    def sent(self, size_bytes: int) -> None: ...

    def ends(self, segment: LocalSegment, outcome: str, segment_id: str) -> None:
        self._console.print(_line(segment, outcome, segment_id), markup=False, soft_wrap=True)
        sys.stdout.flush()


class _Bar(PutReport):
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._done_bytes = 0

    def begins(self, segment: LocalSegment) -> None:
        self._progress.update(self._task, description=segment.log.name)

    def sent(self, size_bytes: int) -> None:
        self._progress.update(self._task, completed=self._done_bytes + size_bytes)

    def ends(self, segment: LocalSegment, outcome: str, segment_id: str) -> None:
        self._done_bytes += segment.size_bytes
        self._progress.update(self._task, completed=self._done_bytes)
        self._progress.console.print(_line(segment, outcome, segment_id), markup=False)


@contextmanager
def put_report(*, total_bytes: int, quiet: bool) -> Iterator[PutReport]:
    if quiet:
        yield _Silent()
        return
    console = stdout_console()
    if not console.is_terminal:
        yield _Lines(console)
        return
    with transfer_progress(console) as progress:
        yield _Bar(progress, progress.add_task("reading", total=total_bytes))


def _line(segment: LocalSegment, outcome: str, segment_id: str) -> str:
    name = f"{segment.partition.topic}-{segment.partition.partition}"
    offsets = offsets_text(segment.base_offset, segment.end_offset)
    return f"{outcome:13}  {segment_id:22}  {name}  {size_text(segment.size_bytes)}  {offsets}"
