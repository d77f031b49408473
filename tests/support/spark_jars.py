"""Jars of Spark's own Kafka source, fetched once through Maven into a cache outside the clone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from support.cache import cached_directory

# One by one: resolved together, Maven would follow Spark's parent pom to a repository that need not be reachable.
_ARTIFACTS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_FETCH_TIMEOUT_S: Final = 300


class SparkJarsMissing(Exception):
    """The jars are not there and cannot be fetched; the message says what to install."""


def spark_kafka_jars() -> list[Path]:
    """What `spark.jars` needs for `format("kafka")`."""
    return sorted(cached_directory("spark-sql-kafka-4.2.0", _fetch).glob("*.jar"))


def _fetch(directory: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SparkJarsMissing(
            "mvn is not on PATH: install Maven 3.8 or later to compare with Spark's own Kafka source"
        )
    for artifact in _ARTIFACTS:
        finished = subprocess.run(
            [
                maven,
                "--batch-mode",
                "--quiet",
                "dependency:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={directory}",
            ],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
        if finished.returncode != 0:
            raise SparkJarsMissing(f"Maven could not fetch {artifact}:\n{finished.stdout}")
