"""A real Spark in this process, on loopback; there is one at a time, and its JVM lives as long as the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql import SparkSession

from support.spark_jars import spark_kafka_jars

SPARK_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    # Short-lived: the optimising compiler would only compete with the tests for the cores.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def running_spark(*, master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    """Settings are written with __ for the dots, such as spark__task__maxFailures="2".

    Raises SparkJarsMissing, which says what to install, when Spark's own Kafka source can not be had.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # The jars are there from the start: to a JVM that runs already they can not be given any more.
    jars = ",".join(map(str, spark_kafka_jars()))
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in {**SPARK_SETTINGS, "spark.jars": jars, **chosen}.items():
        builder = builder.config(name, value)
    with patch("pyspark.java_gateway.Popen", _start):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts the JVM out of the reach of Ctrl-C, as PySpark does it, but without code of Python's behind a fork.

    gRPC's handlers of forks end such a child when this process has channels in use.
    """
    options.pop("preexec_fn", None)
    return subprocess.Popen(command, **options, process_group=0)
