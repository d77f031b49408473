"""How a failed command ends: what the client tells about errors, also about those that come back from an executor."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tiergate_client import errors
from tiergate_client.exit_codes import ExitCode, exit_codes_help
from tiergate_client.failures import Failure, describe_error

EXIT_CODES_HELP: Final = exit_codes_help(code for code in ExitCode if code is not ExitCode.CONFIG)


class PipelineFailed(Exception):
    """A pipeline cannot do what it was asked to; the message says why and what to do."""

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


# What failed in a Python worker comes back as the text of its traceback, whose last line names the error.
_TOLD_BY_A_WORKER: Final = re.compile(r"^(?:(\w[\w.]*)\.)?(\w+): (.+)$", re.MULTILINE)
_MOST_RECENT: Final = re.compile(r"most recent failure: .*?\): (.+)$", re.MULTILINE)
_WAY_OUT_OF_LOSS: Final = ("failOnDataLoss=false", "--skip-missing")  # as the data source and as commands name it
_WHEN_LATE: Final = "try again"
_NO_PACKAGE: Final = "send the package to the executors with --ship or spark-submit's --py-files"


def describe(error: BaseException) -> Failure:
    """What to tell, also about an error that came up on an executor."""
    if isinstance(error, PipelineFailed):
        return Failure(error.message, error.exit_code)
    failure = _of_spark(error) or describe_error(error, when_late=_WHEN_LATE)
    return replace(failure, message=failure.message.replace(*_WAY_OUT_OF_LOSS))


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
            return describe_error(getattr(errors, name, errors.TiergateError)(message), when_late=_WHEN_LATE)
        hint = f"; {_NO_PACKAGE}" if name == "ModuleNotFoundError" and "tiergate" in message else ""
        return Failure(f"a task failed: {name}: {message.rstrip('.')}{hint}", ExitCode.FAILED)
    lines = _MOST_RECENT.findall(text) or [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0].rstrip(".") if lines else type(error).__name__
    return Failure(f"Spark failed: {first}; TIERGATE_TRACEBACK=1 shows where", ExitCode.FAILED)
