"""How log lines look: one coloured line for a person at a terminal, one JSON object for a machine.

What is logged, and at which level, is the business of those who log.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}
_RESET = "\x1b[0m"
_STANDARD = frozenset({*RESERVED_ATTRS, "message", "asctime", "taskName"})


class HumanFormatter(logging.Formatter):
    """`12:00:00.123 warning metadata  The message.  key=value`, then the traceback if there is one."""

    def __init__(self, *, plane: str, colour: bool) -> None:
        super().__init__()
        self._plane = plane
        self._colour = colour

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the standard library's name)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        extra = "".join(f"  {name}={value}" for name, value in vars(record).items() if name not in _STANDARD)
        level = record.levelname.lower()
        line = f"{clock}.{int(record.msecs):03d} {level:<7} {self._plane:<8}  {record.message}{extra}"
        colour = _COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{colour}{line}{_RESET}" if colour else line


def configure_logging(*, level: str, log_format: str, plane: str, stream: TextIO | None = None) -> None:
    """Sends everything that is logged in this process to `stream` (standard error), in place of what was set before."""
    output = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(output)
    if log_format == "human" or (log_format == "auto" and output.isatty()):
        colour = output.isatty() and not os.environ.get("NO_COLOR")
        handler.setFormatter(HumanFormatter(plane=plane, colour=colour))
    else:
        handler.setFormatter(_json_formatter(plane=plane))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _json_formatter(*, plane: str) -> logging.Formatter:
    return JsonFormatter(
        "%(levelname)s %(name)s %(message)s %(process)d",
        rename_fields={"levelname": "level", "name": "logger", "process": "pid"},
        static_fields={"plane": plane},
        timestamp=True,
    )
