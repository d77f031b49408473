"""A real Kafka broker as a child process on loopback ports, alone or in a cluster. Topics are its users' business.

A broker keeps its ports and its data over `restart`, so that clients can be watched while it is away.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from support.certificates import Certificate, make_certificate
from support.kafka_jars import java_program, kafka_libs

USER: Final = "tiergate"
STRANGER: Final = "stranger"
"""Knows the password, but may do nothing."""
PASSWORD: Final = "not-a-secret"  # noqa: S105

_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_STARTED = b"Kafka Server started"
_START_TIMEOUT_S = 90
_STOP_TIMEOUT_S = 30
# Short-lived and mostly idle: the optimising compiler would only compete with the tests for the cores.
_JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error:stderr")

_DEFAULTS: Mapping[str, str] = {
    # A killed broker is let in again only when its old session is over.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    "message.max.bytes": str(4 << 20),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


class KafkaBroker:
    """Node 1 is also the controller; others are told of it."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        secure: bool = False,
        node_id: int = 1,
        controller_port: int | None = None,
        jvm_options: Sequence[str] = _JVM_OPTIONS,
    ) -> None:
        """`secure` adds a SASL/PLAIN and a TLS listener and, on every listener, an authoriser."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log_file = directory / "broker.log"
        self.node_id = node_id
        self.certificate: Certificate | None = make_certificate(directory / "tls") if secure else None
        ports = _free_ports(4)
        self.bootstrap, self.sasl_bootstrap, self.tls_bootstrap = (f"127.0.0.1:{port}" for port in ports[:3])
        self.controller_port = controller_port or ports[3]
        self._is_controller = controller_port is None
        self._settings = settings or {}
        self._jvm_options = tuple(jvm_options)
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: _ClassArchive | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when the broker serves."""
        if not (self.directory / "data").exists():
            self._format()
        self._archive = _ClassArchive()
        with self.log_file.open("ab") as output:
            seen = output.tell()
            self._process = subprocess.Popen(
                [*self._java(), *self._archive.options, "kafka.Kafka", str(self._properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_started(seen)

    def stop(self) -> None:
        """As an operator stops it: leaderships are handed over first. A second time is fine."""
        if self._end(signal.SIGTERM) and self._archive is not None:
            self._archive.keep()

    def kill(self) -> None:
        """As a power cut ends it."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def diagnosis(self, *, lines: int = 40) -> str:
        """The end of the broker's log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def _java(self) -> list[str]:
        return [java_program(), *self._jvm_options, "-Dlog4j2.level=INFO", "-cp", _class_path()]

    def _format(self) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self._properties().items())
        self._properties_file.write_text(text)
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(self._properties_file)]
        command = [java_program(), *self._jvm_options, *_ClassArchive().options_for_reading, "-cp", _class_path()]
        finished = subprocess.run(
            [*command, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert finished.returncode == 0, f"the data directory was not formatted:\n{finished.stdout}{finished.stderr}"

    def _properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.bootstrap}
        if self._is_controller:
            listeners["CONTROLLER"] = f"127.0.0.1:{self.controller_port}"
        properties = {
            **_DEFAULTS,
            "process.roles": "broker,controller" if self._is_controller else "broker",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
        }
        if self.certificate is not None:
            listeners |= {"SASL_PLAINTEXT": self.sasl_bootstrap, "SSL": self.tls_bootstrap}
            properties |= _security(self.certificate)
        properties["listeners"] = ",".join(f"{name}://{address}" for name, address in listeners.items())
        protocols = ("PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SSL:SSL")
        properties["listener.security.protocol.map"] = ",".join(protocols)
        return properties | dict(self._settings)

    def _wait_until_started(self, seen: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.is_running and time.monotonic() < deadline:
            with self.log_file.open("rb") as log:
                log.seek(seen)
                if _STARTED in log.read():
                    return
            time.sleep(0.02)
        state = "is not serving yet" if self.is_running else "ended"
        self.kill()
        raise AssertionError(f"Kafka {state}; its log ends with\n{self.diagnosis()}")

    def _end(self, how: signal.Signals) -> bool:
        """Whether it ended by itself when asked."""
        if self._process is None:
            return False
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        finally:
            self._process = None
        return how is signal.SIGTERM


@contextmanager
def running_broker(
    directory: Path, *, secure: bool = False, jvm_options: Sequence[str] = _JVM_OPTIONS, **settings: str
) -> Iterator[KafkaBroker]:
    """One broker; underscores in the names of settings stand for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    broker = KafkaBroker(directory, settings=named, secure=secure, jvm_options=jvm_options)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@contextmanager
def running_cluster(
    directory: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> Iterator[list[KafkaBroker]]:
    """Several brokers of one cluster. The first is its controller: stop the others to see leaders change."""
    with ExitStack() as started:
        members = [KafkaBroker(directory / "1", settings=settings)]
        for node_id in range(2, brokers + 1):
            members.append(
                KafkaBroker(
                    directory / str(node_id),
                    settings=settings,
                    node_id=node_id,
                    controller_port=members[0].controller_port,
                )
            )
        for member in members:
            started.callback(member.stop)
        with ThreadPoolExecutor() as starters:
            list(starters.map(KafkaBroker.start, members))
        yield members


class _ClassArchive:
    """Class data sharing: the first broker that ends well leaves an archive, which halves the start of later ones."""

    def __init__(self) -> None:
        libs = kafka_libs()
        version = subprocess.run([java_program(), "-version"], capture_output=True, check=True, timeout=60).stderr
        release = version.split(b'"')[1].decode().replace("/", "_")
        changed_at = (libs.parent / "ready").stat().st_mtime_ns
        self._shared = libs.parent / f"classes-{release}-{changed_at}.jsa"
        self._own = self._shared.with_name(f"{self._shared.name}.{os.getpid()}-{random.getrandbits(32):08x}")

    @property
    def options_for_reading(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self._shared}"] if self._shared.exists() else []

    @property
    def options(self) -> list[str]:
        return self.options_for_reading or [f"-XX:ArchiveClassesAtExit={self._own}"]

    def keep(self) -> None:
        if self._own.exists():
            self._own.replace(self._shared)


def _security(certificate: Certificate) -> dict[str, str]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in (USER, STRANGER))
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login} {users};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.chain),
    }


def _class_path() -> str:
    # The jars one by one: an archive of classes is only taken with the very same path.
    return os.pathsep.join(str(jar) for jar in sorted(kafka_libs().glob("*.jar")))


def _free_ports(count: int) -> list[int]:
    """Below the range that the system takes for outgoing connections, so that they are still free after a restart."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            candidate = random.randrange(20000, 32000)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            ports.append(candidate)
        return ports
