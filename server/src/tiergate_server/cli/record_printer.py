"""Prints records as they come, and beside them what a reader has to know. Which records come is not decided here."""

from __future__ import annotations

import shutil
import sys

from tiergate_server.cli.connection import RecordStream
from tiergate_server.cli.console import counted
from tiergate_server.cli.notices import warn
from tiergate_server.cli.record_lines import json_line, text_line
from tiergate_server.cli.session import OutputFormat


class RecordPrinter:
    """Prints records until so many are printed; None is any number."""

    def __init__(self, output: OutputFormat, most: int | None) -> None:
        self._output = output
        self._most = most
        self._width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._printed = 0
        self._has_left_some = False

    @property
    def left(self) -> int | None:
        return None if self._most is None else self._most - self._printed

    def print_partition(self, partition: int, stream: RecordStream, *, from_offset: int | None) -> None:
        self._tell_skipped(partition, stream, from_offset)
        for record in stream:
            if self._output is OutputFormat.JSON:
                line = json_line(partition, record)
            else:
                line = text_line(partition, record, width=self._width)
            sys.stdout.write(f"{line}\n")
            self._printed += 1
        self._has_left_some = stream.next_offset < stream.stop_offset

    def leave_partition(self) -> None:
        """One that was not read, since enough is printed."""
        self._has_left_some = True

    def _tell_skipped(self, partition: int, stream: RecordStream, from_offset: int | None) -> None:
        for one in stream.missing:
            warn(f"partition {partition} misses the offsets {one.start_offset} to {one.stop_offset - 1}", self._output)
        if from_offset is not None and from_offset > stream.stop_offset and not stream.missing:
            warn(
                f"partition {partition} ends before offset {stream.stop_offset}, and holds nothing from "
                f"{from_offset} on",
                self._output,
            )

    def finish(self, topic: str) -> None:
        """Not among the records, since they may go into a pipe."""
        if self._output is OutputFormat.JSON:
            return
        if self._printed == 0:
            told = f"no records of {topic} were found; `tiergate ls {topic}` lists what is tiered"
        elif self._has_left_some:
            told = f"{counted(self._printed, 'record')}, and there may be more: --limit N shows up to N"
        else:
            told = counted(self._printed, "record")
        sys.stdout.flush()
        sys.stderr.write(f"{told}\n")
