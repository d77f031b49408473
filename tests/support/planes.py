"""Real planes for tests: each one a process of its own on free loopback ports, as a person would start it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from support.waiting import wait_until
from tiergate_server.supervisor.allocator import with_allocator_settings

Plane = Literal["metadata", "segments"]


class PlaneProcess:
    """One plane. It can be killed and started again on the same ports and data."""

    def __init__(self, plane: Plane, *, data_directory: Path, settings: Mapping[str, str]) -> None:
        self.plane = plane
        self._data_directory = data_directory
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = data_directory / f"{plane}.log"
        self.address = ""
        self.metrics = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start_unready(self) -> str:
        """Starts a plane that cannot become ready, and returns where it listens as soon as it does."""
        (port,) = free_ports(1)
        self._settings[f"{self.plane}.listen"] = f"127.0.0.1:{port}"
        self._launch(ready_fd=None)
        address = self._settings[f"{self.plane}.listen"]
        wait_until(lambda: _is_listening(port))
        return address

    def start(self) -> None:
        ready_reader, ready_writer = os.pipe()
        self._launch(ready_fd=ready_writer)
        os.close(ready_writer)
        with os.fdopen(ready_reader) as ready:
            line = ready.readline()
        if not line:
            raise RuntimeError(f"the {self.plane} plane did not start:\n{self.log_file.read_text()[-3000:]}")
        addresses = json.loads(line)
        self.address, self.metrics = addresses["address"], addresses["metrics"]
        # The same ports after a restart, so that clients find it again.
        self._settings[f"{self.plane}.listen"] = self.address

    def _launch(self, *, ready_fd: int | None) -> None:
        self._data_directory.mkdir(parents=True, exist_ok=True)
        flags = [f"--set={key}={value}" for key, value in self._settings.items()]
        flags.append(f"--data-dir={self._data_directory}")
        if ready_fd is not None:
            flags.append(f"--ready-fd={ready_fd}")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tiergate_server", "serve", self.plane, *flags],
                pass_fds=[] if ready_fd is None else [ready_fd],
                stdout=log,
                stderr=log,
                env=with_allocator_settings(os.environ),  # otherwise a segment plane would start itself anew, for them
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout_s: float = 60) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def resident_bytes(self) -> int:
        return _status_bytes(self.pid, "VmRSS")

    def peak_resident_bytes(self) -> int:
        return _status_bytes(self.pid, "VmHWM")


class Planes:
    """Both planes of one service, knowing each other."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        free = {
            "metadata.metrics": "",
            "segments.metrics": "",
            "metadata.listen": "127.0.0.1:0",
            "segments.listen": "127.0.0.1:0",
        }
        self._settings = {**free, **settings}
        if self._settings["metadata.listen"] == free["metadata.listen"]:  # the segment plane asks there for records
            self._settings["metadata.listen"] = f"127.0.0.1:{free_ports(1)[0]}"
        self.segments = PlaneProcess("segments", data_directory=directory, settings=self._settings)
        self._directory = directory

    def start(self) -> None:
        self.segments.start()
        self.metadata = PlaneProcess(
            "metadata",
            data_directory=self._directory,
            settings={**self._settings, "segments.listen": self.segments.address},
        )
        self.metadata.start()

    @property
    def target(self) -> str:
        return self.metadata.address

    def stop(self) -> None:
        for plane in (self.segments, getattr(self, "metadata", None)):
            if plane is not None and plane.is_running():
                with suppress(subprocess.TimeoutExpired):
                    plane.signal(signal.SIGTERM)
                    plane.wait(10)
                    continue
                plane.kill()


@contextmanager
def running_planes(directory: Path, **settings: str) -> Iterator[Planes]:
    """Both planes; settings are written with __ for the dots, such as segments__stall_seconds="2"."""
    planes = Planes(directory, {key.replace("__", "."): value for key, value in settings.items()})
    try:
        planes.start()
        yield planes
    finally:
        planes.stop()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _status_bytes(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no {key}")
