"""How a failed command ends: what the client tells about errors, and the commands' own."""

from __future__ import annotations

from dataclasses import replace

from tiergate_client.exit_codes import ExitCode
from tiergate_client.failures import Failure, describe_error, tiergate_failure
from tiergate_server.cli.connection import OutOfReach

_WHEN_LATE = "try again, or allow more time with --timeout"


class CommandFailed(Exception):
    """A command cannot do what it was asked to; the message says why and what to do."""

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def describe(error: Exception) -> Failure:
    """What to tell. Notes on the error say what was being done when it came up."""
    failure = _describe(error)
    doing = getattr(error, "__notes__", [])
    return replace(failure, message=": ".join([*doing, failure.message]))


def _describe(error: Exception) -> Failure:
    if isinstance(error, CommandFailed):
        return Failure(error.message, error.exit_code)
    if isinstance(error, OutOfReach):  # says itself what to do
        return tiergate_failure(error, hint="")
    return describe_error(error, when_late=_WHEN_LATE)
