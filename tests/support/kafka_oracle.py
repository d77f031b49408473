"""Kafka's own classes as a child process that answers questions: its serde, its partitioner, its metadata manager.

The Java program is in `tests/oracle` and is compiled once, into the cache. What it should answer is not known here.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import IO, Any, Final, TypeAlias

from support.cache import cached_directory
from support.kafka_jars import KafkaJarsMissing, java_program, kafka_libs
from support.metadata_json import Json, event_json, partition_json
from tiergate_client.values import TopicIdPartition
from tiergate_server.metadata.event_codec import MetadataEvent

METADATA_TOPIC: Final = "__remote_log_metadata"
"""The only one that Kafka's manager uses."""

Questions: TypeAlias = Sequence[Mapping[str, Any]]

_SOURCES = Path(__file__).parents[1] / "oracle" / "src"
_MAIN_CLASS = "tiergate.oracle.Oracle"
_JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_ANSWER_TIMEOUT_S = 90
_STOP_TIMEOUT_S = 20
_COMPILE_TIMEOUT_S = 100


class KafkaOracle:
    """Commands are answered one by one; threads that share it wait for each other."""

    def __init__(self, process: subprocess.Popen[str], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._turn = threading.Lock()
        assert process.stdin is not None
        assert process.stdout is not None
        self._commands = process.stdin
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def decode(self, events: Iterable[bytes]) -> list[Json]:
        decoded: list[Json] = self.ask("decode", events=[event.hex() for event in events])
        return decoded

    def encode(self, events: Iterable[MetadataEvent]) -> list[bytes]:
        return [bytes.fromhex(each) for each in self.ask("encode", events=[event_json(event) for event in events])]

    def metadata_partitions(self, questions: Iterable[tuple[TopicIdPartition, int]]) -> list[int]:
        """Of each partition among so many metadata partitions."""
        asked = [{"partition": partition_json(partition), "partition_count": count} for partition, count in questions]
        answered: list[int] = self.ask("metadata_partitions", questions=asked)
        return answered

    def ask(self, command: str, **arguments: object) -> Any:
        with self._turn:
            self._commands.write(json.dumps({"command": command, **arguments}) + "\n")
            self._commands.flush()
            try:
                line = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
            except queue.Empty:
                log = self._log()
                raise AssertionError(f"Kafka's classes did not answer {command}; their log ends:\n{log}") from None
        answer = json.loads(line) if line else {"error": "the JVM ended"}
        if "error" in answer:
            raise AssertionError(f"{command} failed in Kafka's classes: {answer['error']}\nLog:\n{self._log()}")
        return answer["result"]

    def _read(self, answers: IO[str]) -> None:
        for line in answers:
            self._answers.put(line)
        self._answers.put("")

    def _log(self, *, lines: int = 40) -> str:
        return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-lines:])


class KafkaManager:
    """A TopicBasedRemoteLogMetadataManager of its own in the oracle's JVM."""

    def __init__(self, oracle: KafkaOracle, name: str, *, bootstrap: str, partitions: int, directory: Path) -> None:
        """Makes the topic with so many partitions, unless it is there."""
        self._oracle = oracle
        self._name = name
        config = {
            "remote.log.metadata.common.client.bootstrap.servers": bootstrap,
            "remote.log.metadata.topic.num.partitions": partitions,
            "remote.log.metadata.topic.replication.factor": 1,
            "remote.log.metadata.topic.min.isr": 1,
            "remote.log.metadata.consume.wait.ms": 30000,
            "broker.id": 7,
            "log.dir": str(directory),
        }
        self._ask("open", config=config)

    def assign(self, *, leaders: Iterable[TopicIdPartition] = (), followers: Iterable[TopicIdPartition] = ()) -> None:
        """Returns when they can be read."""
        self._ask("assign", leaders=list(map(partition_json, leaders)), followers=list(map(partition_json, followers)))

    def stop(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Returns when they are forgotten: Kafka forgets those that had events, while others stay assigned."""
        self._ask("stop", partitions=list(map(partition_json, partitions)))

    def write(self, events: Iterable[MetadataEvent]) -> None:
        """Publishes them in this order and returns when the manager has consumed them all."""
        self._ask("write", events=[event_json(event) for event in events])

    def answers(self, questions: Questions) -> list[Json | None]:
        """What it says about each partition; None for one that it does not know."""
        answered: list[Json | None] = self._ask("ask", questions=questions)
        return answered

    def close(self) -> None:
        self._ask("close")

    def _ask(self, command: str, **arguments: object) -> Any:
        return self._oracle.ask(command, manager=self._name, **arguments)


@contextmanager
def running_oracle(directory: Path) -> Iterator[KafkaOracle]:
    """Raises KafkaJarsMissing, which says what to install, when there is no Java to run it with."""
    class_path = os.pathsep.join((str(_compiled()), f"{kafka_libs()}/*"))
    log_file = directory / "oracle.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [java_program(), *_JVM_OPTIONS, "-cp", class_path, _MAIN_CLASS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )
    with process:
        try:
            yield KafkaOracle(process, log_file)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _compiled() -> Path:
    """The directory of the program's classes, by its sources and the jars that it was compiled with."""
    compiler = which("javac")
    if compiler is None:
        raise KafkaJarsMissing(
            "javac is not on PATH: install a JDK 17 or later, not only its runtime, to compare with Kafka's classes"
        )
    sources = sorted(_SOURCES.rglob("*.java"))
    jars = sorted(jar.name for jar in kafka_libs().glob("*.jar"))
    digest = hashlib.sha256("\n".join(jars).encode())
    for source in sources:
        digest.update(source.read_bytes())

    def compile_into(directory: Path) -> None:
        finished = subprocess.run(
            [compiler, "-Xlint:all,-processing,-classfile", "-Werror", "-d", str(directory), "-cp", f"{kafka_libs()}/*"]
            + [str(source) for source in sources],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        assert finished.returncode == 0, f"the oracle does not compile:\n{finished.stdout}"

    return cached_directory(f"kafka-oracle-{digest.hexdigest()[:16]}", compile_into)
