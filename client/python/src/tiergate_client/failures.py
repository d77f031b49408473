"""What command lines tell about an error: one sentence that says what to do next, and an exit code for scripts.

Errors of a command line's own, and where the sentence is written, are its own affair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tiergate_client import errors
from tiergate_client.exit_codes import ExitCode, exit_code_of
from tiergate_client.local_log.partition_directory import NoPartitionDirectory, UnreadablePartitionDirectory


@dataclass(frozen=True, slots=True)
class Failure:
    """What is told about an error."""

    message: str
    exit_code: ExitCode
    reason: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> str:
        """One line, since warnings or progress may have gone before it."""
        told = {"message": self.message, "exit_code": int(self.exit_code), "reason": self.reason}
        return json.dumps({"error": {**told, "details": dict(self.details)}})


_HINTS: Final[tuple[tuple[type[errors.TiergateError], str], ...]] = (
    (errors.SegmentNotFound, "`tiergate ls TOPIC` lists the segments"),
    (errors.IndexNotFound, "`tiergate show SEGMENT` lists its files"),
    (errors.TopicNotFound, "`tiergate ls` lists what is there"),
    (errors.InvalidTransition, "`tiergate show SEGMENT` says where it stands"),
    (errors.SegmentConflict, "run the command again, it takes a new segment id"),
    (errors.Unavailable, "try again in a moment"),
    (errors.Exhausted, "try again in a moment"),
    (errors.CommitStateUnknown, "look with `tiergate ls` before you repeat it"),
    (errors.StoredDataCorrupt, "restore the object, or remove the segment and put it again"),
    (errors.InternalError, "the server's log says more"),
)

# The server's own advice on these is as good as ours; on others ours names the command to run.
_OFTEN_ADVISED: Final = (errors.Unavailable, errors.Exhausted, errors.DataLoss)
_ADVICE: Final = re.compile(r"; |: (?:try again|restore it|check )")


def describe_error(error: BaseException, *, when_late: str) -> Failure:
    """What to tell about any error; `when_late` is the advice when the time did not suffice."""
    if isinstance(error, errors.TiergateError):
        return _of_tiergate(error, when_late)
    if isinstance(error, NoPartitionDirectory):
        return Failure(str(error), ExitCode.NOT_FOUND)
    if isinstance(error, UnreadablePartitionDirectory):
        return Failure(str(error), ExitCode.FAILED)
    if isinstance(error, OSError):
        return Failure(_of_system(error), ExitCode.FAILED)
    return Failure(
        f"unexpected error, please report it: {type(error).__name__}: {error}; TIERGATE_TRACEBACK=1 shows where",
        ExitCode.FAILED,
    )


def tiergate_failure(error: errors.TiergateError, *, hint: str) -> Failure:
    """With this hint, unless the error gives it itself; or none when it is empty."""
    message = error.message.rstrip(".") or type(error).__name__
    if error.details.get("field") == "id":  # an argument that is one: whoever typed it knows no field
        message = message.removeprefix("id: ")
    told = f"{message}; {hint}" if hint and not message.endswith(hint) else message
    return Failure(told, exit_code_of(error), error.reason, error.details)


def _of_tiergate(error: errors.TiergateError, when_late: str) -> Failure:
    if _advises(error):
        return tiergate_failure(error, hint="")
    if isinstance(error, errors.DeadlineExceeded):
        return tiergate_failure(error, hint=when_late)
    return tiergate_failure(error, hint=next((hint for kind, hint in _HINTS if isinstance(error, kind)), ""))


def _advises(error: errors.TiergateError) -> bool:
    if not error.reason:  # the transport's message, which advises where nobody answers
        return ": start the service" in error.message
    return isinstance(error, _OFTEN_ADVISED) and bool(_ADVICE.search(error.message))


def _of_system(error: OSError) -> str:
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)
