"""What a person sees of a pipeline while Spark works: a line that changes on a terminal, few lines in a log.

How much there is to do is told by the pipeline; how much is done is asked of Spark, in tasks.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]
"""Told again and again how far a pipeline has come."""

_QUIET_S: Final = 2.0
_BETWEEN_LINES_S: Final = 10.0
_POLL_S: Final = 0.5
_GROUP: Final = "spark.jobGroup.id"


def silent(_: str) -> None:
    """No progress, as for programs."""


class ProgressLine:
    """Says nothing about what takes less than two seconds."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _QUIET_S
        self._width = 0

    def __call__(self, text: str) -> None:
        now = self._clock()
        if now < self._next:
            return
        if self._stream.isatty():
            self._stream.write(f"\r{text.ljust(self._width)}")
            self._width = len(text)
        else:
            self._stream.write(f"{text}\n")
            self._next = now + _BETWEEN_LINES_S
        self._stream.flush()

    def clear(self) -> None:
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0


@contextmanager
def progress_line(*, quiet: bool) -> Iterator[Progress]:
    """On stderr, since stdout is for the summary; it is gone when the pipeline ends."""
    if quiet:
        yield silent
        return
    line = ProgressLine(sys.stderr)
    try:
        yield line
    finally:
        line.clear()


@contextmanager
def followed_jobs(spark: SparkSession, progress: Progress, *, doing: str, total: int, unit: str) -> Iterator[None]:
    """While the body runs jobs in this thread, says such as `copying: 12 of 40 segments`, a task being one of them.

    The job group of the caller is set aside meanwhile.
    """
    context = spark.sparkContext
    group = f"tiergate-{uuid.uuid4()}"
    before = context.getLocalProperty(_GROUP)
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(_POLL_S):
            progress(f"{doing}: {min(_completed_tasks(context, group), total)} of {total} {unit}")

    context.setLocalProperty(_GROUP, group)
    follower = threading.Thread(target=follow, name="tiergate-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type] # Spark takes None for none


def _completed_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages: list[Any] = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
