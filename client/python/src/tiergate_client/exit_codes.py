"""The exit codes of all command lines, and which one an error of the service leads to. Nothing is exited here."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from tiergate_client import errors


class ExitCode(enum.IntEnum):
    """Never renumbered."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    OUT_OF_REACH = 4
    REFUSED = 5
    CORRUPT = 6
    CONFIG = 78
    INTERRUPTED = 130
    TERMINATED = 143


_MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "wrong usage",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.OUT_OF_REACH: "server out of reach or not ready",
    ExitCode.REFUSED: "refused by a precondition or conflict",
    ExitCode.CORRUPT: "stored data is corrupt",
    ExitCode.CONFIG: "wrong configuration",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "terminated",
}

_OF_ERRORS: Final[tuple[tuple[type[errors.TiergateError], ExitCode], ...]] = (
    (errors.InvalidField, ExitCode.USAGE),
    (errors.OffsetOutOfRange, ExitCode.USAGE),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.Unavailable, ExitCode.OUT_OF_REACH),
    (errors.DeadlineExceeded, ExitCode.OUT_OF_REACH),
    (errors.Exhausted, ExitCode.OUT_OF_REACH),
    (errors.PreconditionFailed, ExitCode.REFUSED),
    (errors.SegmentConflict, ExitCode.REFUSED),
    (errors.DataLoss, ExitCode.CORRUPT),
)


def exit_code_of(error: errors.TiergateError) -> ExitCode:
    return next((code for kind, code in _OF_ERRORS if isinstance(error, kind)), ExitCode.FAILED)


def exit_codes_help(codes: Iterable[ExitCode] = ExitCode) -> str:
    """A sentence for the end of a command's help."""
    return f"Exit codes: {', '.join(f'{code:d} {_MEANINGS[code]}' for code in codes)}."
