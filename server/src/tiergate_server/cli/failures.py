"""How a failed command ends: one sentence that says what to do next, and an exit code that scripts can use."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiergate_client import errors
from tiergate_client.local_log.partition_directory import UnreadablePartitionDirectory
from tiergate_server.cli.connection import OutOfReach
from tiergate_server.supervisor import EXIT_CONFIG


class ExitCode(enum.IntEnum):
    """Documented in `tiergate --help`; never renumbered."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    OUT_OF_REACH = 4
    REFUSED = 5
    CORRUPT = 6
    CONFIG = EXIT_CONFIG
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_CODES_HELP = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 server out of reach or not ready, "
    "5 refused by a precondition or conflict, 6 stored data is corrupt, 78 wrong configuration, 130 interrupted, "
    "143 terminated."
)


class CommandFailed(Exception):
    """A command cannot do what it was asked to; the message says why and what to do."""

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Failure:
    """What is told about an error."""

    message: str
    exit_code: ExitCode
    reason: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> str:
        """One line, since warnings may have gone before it."""
        return json.dumps(
            {
                "error": {
                    "message": self.message,
                    "exit_code": int(self.exit_code),
                    "reason": self.reason,
                    "details": dict(self.details),
                }
            }
        )


_EXIT_CODES: tuple[tuple[type[errors.TiergateError], ExitCode], ...] = (
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

_HINTS: tuple[tuple[type[errors.TiergateError], str], ...] = (
    (errors.SegmentNotFound, "`tiergate ls TOPIC` lists the segments"),
    (errors.IndexNotFound, "`tiergate show SEGMENT` lists its files"),
    (errors.TopicNotFound, "`tiergate ls` lists what is there"),
    (errors.InvalidTransition, "`tiergate show SEGMENT` says where it stands"),
    (errors.SegmentConflict, "run the command again, it takes a new segment id"),
    (errors.Unavailable, "try again in a moment"),
    (errors.Exhausted, "try again in a moment"),
    (errors.DeadlineExceeded, "try again, or allow more time with --timeout"),
    (errors.CommitStateUnknown, "look with `tiergate ls` before you repeat it"),
    (errors.StoredDataCorrupt, "restore the object, or remove the segment and put it again"),
    (errors.InternalError, "the server's log says more"),
)

# The server's own advice on these is as good as ours; on others ours names the command to run.
_OFTEN_ADVISED = (errors.Unavailable, errors.Exhausted, errors.DataLoss)
_ADVICE = re.compile(r"; |: (?:try again|restore it|check )")


def describe(error: Exception) -> Failure:
    """What to tell. Notes on the error say what was being done when it came up."""
    failure = _describe(error)
    doing = getattr(error, "__notes__", [])
    return replace(failure, message=": ".join([*doing, failure.message]))


def _describe(error: Exception) -> Failure:
    if isinstance(error, CommandFailed):
        return Failure(error.message, error.exit_code)
    if isinstance(error, UnreadablePartitionDirectory):
        return Failure(str(error), ExitCode.FAILED)
    if isinstance(error, errors.TiergateError):
        return _of_tiergate(error)
    if isinstance(error, OSError):
        return Failure(_of_system(error), ExitCode.FAILED)
    return Failure(
        f"unexpected error, please report it: {type(error).__name__}: {error}; TIERGATE_TRACEBACK=1 shows where",
        ExitCode.FAILED,
    )


def _of_tiergate(error: errors.TiergateError) -> Failure:
    exit_code = next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), ExitCode.FAILED)
    message = error.message.rstrip(".") or type(error).__name__
    if error.details.get("field") == "id":  # an argument that is one: whoever typed it knows no field
        message = message.removeprefix("id: ")
    hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
    if hint and not _advises(error):
        message = f"{message}; {hint}"
    return Failure(message, exit_code, error.reason, error.details)


def _advises(error: errors.TiergateError) -> bool:
    if isinstance(error, OutOfReach):
        return True
    # Without a reason it is the transport's message, which advises nothing.
    return isinstance(error, _OFTEN_ADVISED) and bool(error.reason) and bool(_ADVICE.search(error.message))


def _of_system(error: OSError) -> str:
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)
