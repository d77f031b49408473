"""Where `--report` writes a DataFrame: a directory of its own. What others have put there is never touched.

A report that is not whole yet holds the file _tiergate_unfinished, which is written first and removed last. So a
command that was killed meanwhile can be run again, and replaces what it has left.
"""

from __future__ import annotations

import uuid
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.hadoop_files import HadoopFiles

_UNFINISHED: Final = "_tiergate_unfinished"
_NAMES_OF_WRITERS: Final = ("_", ".", "part-")


class ReportFiles(Protocol):
    """What of a file system is asked."""

    def exists(self, path: str) -> bool: ...
    def is_directory(self, path: str) -> bool: ...
    def children(self, path: str) -> list[str]: ...


def require_new_report(spark: SparkSession, path: str | None) -> None:
    """Before the work is done for it. Raises PipelineFailed when something is there that no report has left behind."""
    if path is not None:
        require_free(HadoopFiles(spark), path)


def require_free(files: ReportFiles, path: str) -> None:
    """Raises PipelineFailed unless nothing is there, or what can be replaced: a report that was not finished."""
    if files.exists(path) and not (files.is_directory(path) and _is_left_behind(files.children(path))):
        raise PipelineFailed(
            f"{path} exists already; remove it, or name a new directory with --report", exit_code=ExitCode.REFUSED
        )


def _is_left_behind(names: list[str]) -> bool:
    """An empty directory too: it is made before the first file. Not what has another file in it, whatever that is."""
    return not names or (_UNFINISHED in names and all(name.startswith(_NAMES_OF_WRITERS) for name in names))


def write_report(frame: DataFrame, path: str, *, format: str) -> None:  # noqa: A002 - Spark's word
    """Raises PipelineFailed when something has come there since `require_new_report`.

    Of two commands at once, the one that began to write first is told so; the other's report may have rows of both.
    """
    files = HadoopFiles(frame.sparkSession)
    require_free(files, path)
    files.delete(path)
    mark, ours = f"{path}/{_UNFINISHED}", uuid.uuid4().bytes
    files.write(mark, ours)
    frame.write.format(format).mode("append").save(path)
    if files.read(mark) != ours:
        raise PipelineFailed(
            f"another command has written its report to {path} meanwhile; run it again, one at a time",
            exit_code=ExitCode.REFUSED,
        )
    files.delete(mark)
