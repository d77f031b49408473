"""Kafka's own jars, fetched once through Maven into a cache outside the clone; starting brokers is not done here."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.3.1"
_FETCH_TIMEOUT_S = 600

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tiergate.tests</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{KAFKA_VERSION}</version>
      <exclusions>
        <exclusion>
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.4</version>
    </dependency>
  </dependencies>
</project>
"""


class KafkaJarsMissing(Exception):
    """The jars are not there and cannot be fetched; the message says what to install."""


def kafka_libs() -> Path:
    """The directory that holds every jar of Kafka, fetched when it is not there yet."""
    home = _cache_home() / f"kafka-{KAFKA_VERSION}"
    libs, marker = home / "libs", home / "ready"
    if _is_ready(marker):
        return libs
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / "lock"):
        if not _is_ready(marker):
            _fetch(home, libs)
            marker.write_text(_POM, encoding="utf-8")
    return libs


def java_program() -> str:
    return _required("java", "a JDK 17 or later")


def run_kafka_tool(main_class: str, *arguments: str, timeout_s: float = 100) -> str:
    """What one of Kafka's command line tools prints, stdout and stderr together."""
    class_path = f"{kafka_libs()}/*"
    finished = subprocess.run(
        [java_program(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path, main_class, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if finished.returncode != 0:
        raise AssertionError(f"{main_class} ended with {finished.returncode}:\n{finished.stdout}")
    return finished.stdout


def _is_ready(marker: Path) -> bool:
    """The marker holds what was fetched, so that a cache of another list of jars is filled again."""
    return marker.exists() and marker.read_text(encoding="utf-8") == _POM


def _fetch(home: Path, libs: Path) -> None:
    maven = _required("mvn", "Maven 3.8 or later")
    pom = home / "pom.xml"
    pom.write_text(_POM, encoding="utf-8")
    shutil.rmtree(libs, ignore_errors=True)
    finished = subprocess.run(
        [
            maven,
            "--batch-mode",
            "--quiet",
            "--file",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={libs}",
            "-DincludeScope=runtime",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
        check=False,
    )
    if finished.returncode != 0:
        raise KafkaJarsMissing(f"Maven could not fetch Kafka {KAFKA_VERSION}:\n{finished.stdout}")


def _required(program: str, what: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise KafkaJarsMissing(f"{program} is not on PATH: install {what} to run the tests against the real Kafka")
    return found


def _cache_home() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "tiergate"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
