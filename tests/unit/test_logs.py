"""What log lines look like, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator

import pytest

from tiergate_server.logs import configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def root_logger_is_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_auto_writes_json_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    configure_logging(level="info", log_format="auto", plane="metadata", stream=stream)
    logging.getLogger("tiergate.test").warning("Lost %d calls.", 3, extra={"segment": "abc"})
    entry = json.loads(stream.getvalue())
    assert entry.pop("timestamp").startswith("20")
    assert entry == {
        "level": "WARNING",
        "logger": "tiergate.test",
        "message": "Lost 3 calls.",
        "plane": "metadata",
        "pid": os.getpid(),
        "segment": "abc",
    }


def test_json_keeps_an_exception_on_one_line() -> None:
    stream = io.StringIO()
    configure_logging(level="info", log_format="json", plane="segments", stream=stream)
    try:
        int("broken\nin two")
    except ValueError:
        logging.getLogger("tiergate.test").exception("It failed.")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["exc_info"]


def test_auto_writes_coloured_lines_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure_logging(level="info", log_format="auto", plane="metadata", stream=stream)
    logging.getLogger("tiergate.test").warning("Lost it.", extra={"segment": "abc"})
    line = stream.getvalue()
    assert line.startswith("\x1b[33m")
    assert "warning metadata  Lost it.  segment=abc" in line


@pytest.mark.parametrize(("stream", "no_color"), [(Terminal(), "1"), (io.StringIO(), "")])
def test_human_has_no_colour_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, no_color: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    configure_logging(level="info", log_format="human", plane="metadata", stream=stream)
    logging.getLogger("tiergate.test").error("Lost it.")
    assert "Lost it." in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_level_hides_what_is_less_serious() -> None:
    stream = io.StringIO()
    configure_logging(level="warning", log_format="human", plane="metadata", stream=stream)
    logging.getLogger("tiergate.test").info("Not shown.")
    logging.getLogger("tiergate.test").warning("Shown.")
    assert [line.endswith("Shown.") for line in stream.getvalue().splitlines()] == [True]
