"""`tiergate serve` with the real planes: ready together, restarted, and ended together."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_PATIENCE_S = 60
_FREE = ("metadata.listen=127.0.0.1:0", "segments.listen=127.0.0.1:0", "metadata.metrics=", "segments.metrics=")


class Service:
    """`tiergate serve` on free ports; its log is read as JSON lines."""

    def __init__(self, directory: Path, *assignments: str) -> None:
        self._log = directory / "log"
        flags = [f"--set={assignment}" for assignment in (*_FREE, *assignments)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tiergate_server", "serve", f"--data-dir={directory / 'data'}", *flags],
                stderr=log,
            )

    def entries(self) -> list[dict[str, Any]]:
        found = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):  # the refusal of a plane, and what gRPC's core says, are no JSON
                found.append(json.loads(line))
        return found

    def text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_for(self, words: str) -> str:
        def said() -> list[str]:
            return [entry["message"] for entry in self.entries() if words in entry["message"]]

        wait_until(lambda: bool(said()), otherwise=self.text)
        return said()[0]

    def plane_pid(self, plane: str) -> int:
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        (pid,) = [
            int(line.split()[0])
            for line in listed
            if int(line.split()[1]) == self.process.pid and f" serve {plane} " in line
        ]
        return pid


def wait_until(condition: Callable[[], bool], *, otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def begin(*assignments: str) -> Service:
        started.append(Service(tmp_path, *assignments))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def health(address: str, plane: str) -> int:
    words = [sys.executable, "-m", "tiergate_server", "health", plane, "--set", f"{plane}.listen={address}"]
    return subprocess.run(words, check=False, capture_output=True).returncode


def test_both_planes_serve_after_one_ready_line_and_end_with_the_supervisor(start: Callable[..., Service]) -> None:
    service = start()
    words = service.wait_for("Tiergate is ready").rstrip(".").split()
    metadata, segments = words[words.index("metadata") + 2].rstrip(","), words[words.index("segments") + 2]
    assert (health(metadata, "metadata"), health(segments, "segments")) == (0, 0)
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(_PATIENCE_S) == 0
    assert (health(metadata, "metadata"), health(segments, "segments")) == (1, 1)
    assert len([entry for entry in service.entries() if "is ready" in entry["message"]]) == 1


@pytest.mark.parametrize("plane", ["metadata", "segments"])
def test_plane_that_is_killed_comes_back_at_its_address(start: Callable[..., Service], plane: str) -> None:
    service = start()
    ready = service.wait_for("Tiergate is ready")
    killed = service.plane_pid(plane)
    os.kill(killed, signal.SIGKILL)
    back = service.wait_for(f"The {plane} plane is back")
    assert back.rstrip(".").split()[-1] in ready
    assert service.plane_pid(plane) != killed


def test_segment_plane_of_several_workers_that_is_killed_comes_back_without_the_old_ones(
    start: Callable[..., Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    service = start("segments.workers=2")
    ready = service.wait_for("Tiergate is ready")
    killed = service.plane_pid("segments")
    workers = children(killed)
    assert len(workers) == 2
    os.kill(killed, signal.SIGKILL)
    back = service.wait_for("The segments plane is back")
    address = back.rstrip(".").split()[-1]
    assert address in ready
    wait_until(lambda: not any(map(is_alive, workers)), otherwise=service.text)
    assert len(list(tmp_path.glob("tiergate-metrics-*"))) == 1, "where the new ones count"
    assert health(address, "segments") == 0
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(_PATIENCE_S) == 0
    assert not list(tmp_path.glob("tiergate-metrics-*"))


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid, of in map(str.split, listed.splitlines()) if int(of) == parent]


def test_planes_do_not_outlive_a_supervisor_that_is_killed(start: Callable[..., Service]) -> None:
    service = start()
    service.wait_for("Tiergate is ready")
    pids = [service.plane_pid(plane) for plane in ("metadata", "segments")]
    service.process.kill()
    service.process.wait()
    wait_until(lambda: not any(map(is_alive, pids)), otherwise=service.text)


def test_port_in_use_ends_the_service_with_one_sentence(start: Callable[..., Service]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        service = start(f"segments.listen={address}")
        assert service.process.wait(_PATIENCE_S) == 78
    assert service.text().count(f"tiergate: segments.listen = {address} cannot be listened on") == 1


def test_person_at_a_terminal_is_told_what_to_do_next(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    flags = [f"--set={assignment}" for assignment in _FREE]
    process = subprocess.Popen(
        [sys.executable, "-m", "tiergate_server", "serve", f"--data-dir={tmp_path}", *flags],
        stdin=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    try:
        while b"Ctrl-C stops" not in seen:
            seen += os.read(controller, 4096)
        assert b"tiergate status" in seen
        assert b"export TIERGATE_TARGET=127.0.0.1:" in seen
        process.send_signal(signal.SIGINT)
        assert process.wait(_PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)
