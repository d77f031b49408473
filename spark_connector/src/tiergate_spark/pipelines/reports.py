"""Where `--report` writes a DataFrame. It is a directory of its own: what is there already is never touched."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.hadoop_files import HadoopFiles


def require_new_report(spark: SparkSession, path: str | None) -> None:
    """Before the work is done for it. Raises PipelineFailed when something is there."""
    if path is not None and HadoopFiles(spark).exists(path):
        raise PipelineFailed(
            f"{path} exists already; remove it, or name a new directory with --report", exit_code=ExitCode.REFUSED
        )


def write_report(frame: DataFrame, path: str, *, format: str) -> None:  # noqa: A002 - Spark's word
    frame.write.format(format).mode("errorifexists").save(path)
