"""One plane as a child process: starting it, hearing that it is ready, signalling it.

When to start it again is `tiergate_server.supervisor.supervisor`'s to decide.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlaneCommand:
    """What starts a plane; `--ready-fd N --lifeline-fd N` are appended to `arguments`. Logs call it by its `title`."""

    plane: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    title: str = ""

    def __str__(self) -> str:
        return self.title or f"{self.plane} plane"


class PlaneProcess:
    """A child that has been started. `ready_fd` is readable, without blocking, until it says `ready` or dies."""

    def __init__(self, command: PlaneCommand, *, lifeline_fd: int, now_s: float) -> None:
        self.started_s = now_s
        self.ready_fd, ready_write_fd = os.pipe()
        os.set_blocking(self.ready_fd, False)
        self._received = b""
        try:
            self._process = subprocess.Popen(
                [*command.arguments, "--ready-fd", str(ready_write_fd), "--lifeline-fd", str(lifeline_fd)],
                env=dict(command.environment),
                pass_fds=(ready_write_fd, lifeline_fd),
                stdin=subprocess.DEVNULL,
                # A terminal sends Ctrl-C to the supervisor's group only: a plane gets it once, forwarded.
                process_group=0,
            )
        except BaseException:
            os.close(self.ready_fd)
            raise
        finally:
            os.close(ready_write_fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    def read_ready(self) -> dict[str, str] | None:
        """The ready message once all of it has come; raises EOFError when it never will."""
        try:
            received = os.read(self.ready_fd, 65536)
        except BlockingIOError:
            return None
        if not received:
            raise EOFError
        self._received += received
        line, newline, _ = self._received.partition(b"\n")
        message: dict[str, str] | None = json.loads(line) if newline else None
        return message

    def close_ready(self) -> None:
        os.close(self.ready_fd)

    def exit_code(self) -> int | None:
        """None while it lives; negative when a signal ended it."""
        return self._process.poll()

    def send(self, signal_number: int) -> None:
        """One that is already dead is fine."""
        self._process.send_signal(signal_number)

    def reap(self) -> None:
        self._process.wait()
