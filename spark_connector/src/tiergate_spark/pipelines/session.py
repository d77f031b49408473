"""What every command is told: where Tiergate is, which Spark runs it, and in which form to answer."""

from __future__ import annotations

import enum
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tiergate_client import Access
from tiergate_spark.options import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TARGET: Final = "127.0.0.1:7400"
# Where nothing else is set: our own progress and sentences would drown in Spark's, which also logs what it tries again.
_QUIET: Final = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}


@dataclass(slots=True)
class Session:
    """One run of the command line; filled in while its arguments are parsed."""

    target: str = DEFAULT_TARGET
    segments: str | None = None
    access: Access = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    ship: bool = False
    json: bool = False

    @property
    def service(self) -> Service:
        return Service(target=self.target, segments=self.segments, access=self.access)


class OutputFormat(enum.StrEnum):
    """For people, or for programs: then stdout holds one JSON document and nothing else.

    It is text, since typer 0.28 turns into text and back what a callback returns.
    """

    HUMAN = "human"
    JSON = "json"


def session_of(context: typer.Context) -> Session:
    session = context.find_root().obj
    if not isinstance(session, Session):
        raise TypeError("the command line runs with a Session as its object")
    return session


def _remember_format(context: typer.Context, value: OutputFormat) -> OutputFormat:
    """Early, so that also a complaint about other arguments has the form that was asked for."""
    session_of(context).json = value is OutputFormat.JSON
    return value


Output = Annotated[
    OutputFormat,
    typer.Option(
        "--output", "-o", help="Form of the summary.", callback=_remember_format, is_eager=True, show_default=True
    ),
]


def print_summary(output: OutputFormat, *, document: Mapping[str, Any], text: str) -> None:
    sys.stdout.write(f"{json.dumps(document, indent=2) if output is OutputFormat.JSON else text}\n")


def warn(session: Session, message: str) -> None:
    """Beside the summary: a sentence for people, one JSON object per line for programs."""
    sys.stderr.write(json.dumps({"warning": message}) + "\n" if session.json else f"tiergate-spark: {message}\n")


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark has Ctrl-C cancel all jobs by a call that comes in the middle of another one, and py4j then logs both.

    Without it the command is interrupted, and ends Spark with its jobs.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def running_spark(session: Session, *, name: str) -> Iterator[SparkSession]:
    """A Spark as spark-submit, the environment and the options describe it; ended when the command ends."""
    from pyspark import SparkConf  # noqa: PLC0415 - help needs no Spark, and is there sooner
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from tiergate_spark.shipping import ship  # noqa: PLC0415

    given = SparkConf()
    master = session.master or session.conf.get("spark.master") or given.get("spark.master") or "local"
    if master.startswith("local") and not given.contains("spark.pyspark.python"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers here have what the driver has
    conf = {key: value for key, value in _QUIET.items() if not given.contains(key)} | dict(session.conf)
    builder = SparkSession.builder.appName(f"tiergate-spark {name}")
    if session.master is not None:
        builder = builder.master(session.master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _own_interrupts():
        spark = builder.getOrCreate()
    try:
        if session.ship:
            ship(spark)
        yield spark
    finally:
        spark.stop()
