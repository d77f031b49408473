"""Keeps the planes alive as child processes and ends them together.

It knows nothing of what a plane does: a plane is a command that says when it is ready, that exits with 78 when its
configuration cannot work, and that stops when it is signalled or its lifeline ends.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from tiergate_server.supervisor.backoff import RestartBackoff
from tiergate_server.supervisor.plane_process import PlaneCommand, PlaneProcess
from tiergate_server.supervisor.wakeups import signal_numbers

EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_logger = logging.getLogger(__name__)


class _Plane:
    """A command with its present process, or the moment at which the next one starts."""

    def __init__(self, command: PlaneCommand, *, may_start: bool = True) -> None:
        self.command = command
        self.may_start = may_start
        self.backoff = RestartBackoff()
        self.process: PlaneProcess | None = None
        self.start_at_s = 0.0
        self.hears_ready = False
        self.ready: dict[str, str] | None = None
        self.has_served = False

    def cannot_work(self, exit_code: int) -> bool:
        """Whether that is the configuration's fault for good.

        Not when it has worked before: one of several workers that is started again while the store refuses it for a
        moment must not end those that serve.
        """
        return exit_code == EXIT_CONFIG and (self.ready is not None or not self.has_served)


class Supervisor:
    """Runs planes until a signal or a configuration that cannot work ends them all.

    `on_all_ready` is called once, with each plane's ready message; `on_back` for each plane that is ready again later.
    With `first_alone` the others are started when the first is ready: so what is wrong with all of them is said once.
    """

    def __init__(
        self,
        commands: Sequence[PlaneCommand],
        *,
        drain_seconds: float,
        on_all_ready: Callable[[Mapping[str, Mapping[str, str]]], None],
        on_back: Callable[[str, Mapping[str, str]], None],
        first_alone: bool = False,
        kill_margin_seconds: float = 5.0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planes = [_Plane(command, may_start=not first_alone or command is commands[0]) for command in commands]
        self._patience_s = drain_seconds + kill_margin_seconds
        self._on_all_ready = on_all_ready
        self._on_back = on_back
        self._monotonic_s = monotonic_s
        self._selector = selectors.DefaultSelector()
        self._announced = False
        self._kill_at_s: float | None = None
        self._exit_code = 0

    def run(self) -> int:
        """Blocks until every plane has ended; the exit code is 0 after a signal, 78 after a bad configuration."""
        self._lifeline_fd, lifeline_write_fd = os.pipe()
        try:
            with signal_numbers((*_STOP_SIGNALS, signal.SIGCHLD)) as signals:
                self._selector.register(signals, selectors.EVENT_READ)
                while self._step(signals):
                    pass
        finally:
            os.close(lifeline_write_fd)
            os.close(self._lifeline_fd)
            self._selector.close()
        return self._exit_code

    def pids(self) -> dict[str, int]:
        """The process of each plane that lives at this moment; for any thread."""
        running = [(plane.command.plane, plane.process) for plane in self._planes]
        return {name: process.pid for name, process in running if process is not None}

    def _step(self, signals: socket.socket) -> bool:
        now_s = self._monotonic_s()
        if self._kill_at_s is None:
            self._start_due(now_s)
        elif now_s >= self._kill_at_s:
            self._kill_all()
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is signals:
                self._take_signals(signals.recv(4096))
            else:
                self._hear(key.data)
        for plane in self._planes:
            self._look_after(plane)
        return self._kill_at_s is None or any(plane.process for plane in self._planes)

    def _start_due(self, now_s: float) -> None:
        for plane in self._planes:
            if plane.process is None and plane.may_start and now_s >= plane.start_at_s:
                plane.process = PlaneProcess(plane.command, lifeline_fd=self._lifeline_fd, now_s=now_s)
                self._selector.register(plane.process.ready_fd, selectors.EVENT_READ, plane)
                plane.hears_ready = True

    def _wait_s(self) -> float | None:
        """Until the next restart or the kill; None is until something happens."""
        if self._kill_at_s is not None:
            moments = [self._kill_at_s]
        else:
            moments = [plane.start_at_s for plane in self._planes if plane.process is None and plane.may_start]
        return max(0.0, min(moments) - self._monotonic_s()) if moments else None

    def _take_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number in _STOP_SIGNALS and self._kill_at_s is None:
                _logger.info("Stopping.", extra={"signal": signal.Signals(number).name})
                self._stop_all(signal.SIGTERM if number == signal.SIGHUP else number)

    def _stop_all(self, signal_number: int) -> None:
        self._kill_at_s = self._monotonic_s() + self._patience_s
        for plane in self._planes:
            if plane.process is not None:
                plane.process.send(signal_number)

    def _kill_all(self) -> None:
        for plane in self._planes:
            if plane.process is not None:
                _logger.warning("The %s did not stop in time: killing it.", plane.command)
                plane.process.send(signal.SIGKILL)
                plane.process.reap()

    def _hear(self, plane: _Plane) -> None:
        if plane.process is None or not plane.hears_ready:
            return
        try:
            plane.ready = plane.process.read_ready()
        except EOFError:
            self._stop_hearing(plane)
            return
        if plane.ready is None:
            return
        plane.has_served = True
        self._stop_hearing(plane)
        for other in self._planes:
            other.may_start = True
        if self._announced:
            self._on_back(plane.command.plane, plane.ready)
        elif all(other.ready is not None for other in self._planes):
            self._announced = True
            self._on_all_ready({other.command.plane: other.ready or {} for other in self._planes})

    def _stop_hearing(self, plane: _Plane) -> None:
        if plane.process is not None and plane.hears_ready:
            self._selector.unregister(plane.process.ready_fd)
            plane.process.close_ready()
            plane.hears_ready = False

    def _look_after(self, plane: _Plane) -> None:
        """Takes note of a death: an end while stopping, a reason to stop, or a reason to start again."""
        if plane.process is None or (exit_code := plane.process.exit_code()) is None:
            return
        self._stop_hearing(plane)
        lived_s = self._monotonic_s() - plane.process.started_s
        cannot_work = plane.cannot_work(exit_code)
        plane.process = None
        plane.ready = None
        if self._kill_at_s is not None:
            return
        if cannot_work:
            _logger.error("The %s cannot run with this configuration: stopping.", plane.command)
            self._exit_code = EXIT_CONFIG
            self._stop_all(signal.SIGTERM)
            return
        delay_s = plane.backoff.delay_s(lived_s=lived_s)
        plane.start_at_s = self._monotonic_s() + delay_s
        _logger.warning(
            "The %s died (%s): starting it again %s.",
            plane.command,
            _cause(exit_code),
            f"in {delay_s:g} s" if delay_s else "at once",
        )


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
