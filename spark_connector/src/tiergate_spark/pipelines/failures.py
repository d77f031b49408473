"""How a failed command ends: one sentence that says what to do next, and an exit code that scripts can use."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tiergate_client import errors
from tiergate_client.local_log import UnreadablePartitionDirectory


class ExitCode(enum.IntEnum):
    """Those of `tiergate`; never renumbered."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    OUT_OF_REACH = 4
    REFUSED = 5
    CORRUPT = 6
    INTERRUPTED = 130


EXIT_CODES_HELP: Final = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 server out of reach or not ready, "
    "5 refused by a precondition or conflict, 6 stored data is corrupt, 130 interrupted."
)


class PipelineFailed(Exception):
    """A pipeline cannot do what it was asked to; the message says why and what to do."""

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
        """One line, since progress may have gone before it."""
        told = {"message": self.message, "exit_code": int(self.exit_code), "reason": self.reason}
        return json.dumps({"error": {**told, "details": dict(self.details)}})


_EXIT_CODES: Final[tuple[tuple[type[errors.TiergateError], ExitCode], ...]] = (
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

# What failed in a Python worker comes back as the text of its traceback, whose last line names the error.
_TOLD_BY_A_WORKER: Final = re.compile(r"^(?:(\w[\w.]*)\.)?(\w+): (.+)$", re.MULTILINE)
_MOST_RECENT: Final = re.compile(r"most recent failure: .*?\): (.+)$", re.MULTILINE)
_NO_PACKAGE: Final = "send the package to the executors with --ship or spark-submit's --py-files"


def describe(error: BaseException) -> Failure:
    """What to tell, also about an error that came up on an executor."""
    if isinstance(error, PipelineFailed):
        return Failure(error.message, error.exit_code)
    if isinstance(error, errors.TiergateError):
        return _of_tiergate(type(error), error.message, error.details)
    if isinstance(error, UnreadablePartitionDirectory):
        return Failure(str(error), ExitCode.FAILED)
    if isinstance(error, OSError):
        told = f"{error.filename}: {error.strerror.lower()}" if error.strerror and error.filename else str(error)
        return Failure(told, ExitCode.FAILED)
    return _of_spark(error) or Failure(
        f"unexpected error, please report it: {type(error).__name__}: {error}; TIERGATE_TRACEBACK=1 shows where",
        ExitCode.FAILED,
    )


def _of_tiergate(kind: type[errors.TiergateError], message: str, details: Mapping[str, str]) -> Failure:
    exit_code = next((code for known, code in _EXIT_CODES if issubclass(kind, known)), ExitCode.FAILED)
    return Failure(message.rstrip(".") or kind.__name__, exit_code, kind.reason, details)


def _of_spark(error: BaseException) -> Failure | None:
    """None for an error that is not Spark's."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    _, _, told = text.partition("Traceback (most recent call last):")
    found = _TOLD_BY_A_WORKER.findall(told.partition("\n\tat ")[0])
    if found:
        module, name, message = found[-1]
        if module == errors.__name__:
            return _of_tiergate(getattr(errors, name, errors.TiergateError), message, {})
        hint = f"; {_NO_PACKAGE}" if name == "ModuleNotFoundError" and "tiergate" in message else ""
        return Failure(f"a task failed: {name}: {message.rstrip('.')}{hint}", ExitCode.FAILED)
    lines = _MOST_RECENT.findall(text) or [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0].rstrip(".") if lines else type(error).__name__
    return Failure(f"Spark failed: {first}; TIERGATE_TRACEBACK=1 shows where", ExitCode.FAILED)
