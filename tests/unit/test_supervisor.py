"""The supervisor, with stand-ins for the planes: restarts, signals, exit codes and the lifeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stand_in_plane import read_events, read_pid
from tiergate_server.supervisor import EXIT_CONFIG
from tiergate_server.supervisor.backoff import RestartBackoff

_PROGRAM = Path(__file__).parents[1] / "support" / "stand_in_supervisor.py"
_PATIENCE_S = 30


class Supervised:
    def __init__(self, journal: Path, *, metadata: str, segments: str, drain_seconds: float) -> None:
        self.journal = journal
        self.process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(journal), str(drain_seconds), metadata, segments],
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_for(self, condition: Callable[[list[tuple[str, str]]], bool]) -> list[tuple[str, str]]:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition(events := read_events(self.journal)):
            assert time.monotonic() < deadline, f"only {events}"
            time.sleep(0.01)
        return events

    def wait_for_event(self, plane: str, event: str, *, times: int = 1) -> list[tuple[str, str]]:
        return self.wait_for(lambda events: events.count((plane, event)) >= times)

    def finish(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=_PATIENCE_S)
        return self.process.returncode, said


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def begin(*, metadata: str = "serve", segments: str = "serve", drain_seconds: float = 20) -> Supervised:
        one = Supervised(tmp_path / "journal", metadata=metadata, segments=segments, drain_seconds=drain_seconds)
        started.append(one)
        return one

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate(timeout=_PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_forwarded_once_and_exit_is_clean(start: Start, number: signal.Signals) -> None:
    supervised = start()
    supervised.wait_for_event("both", "ready")
    supervised.process.send_signal(number)
    exit_code, _ = supervised.finish()
    events = read_events(supervised.journal)
    assert exit_code == 0
    for plane in ("metadata", "segments"):
        assert [event for name, event in events if name == plane] == ["started", number.name, "ended"]


def test_hang_up_of_the_terminal_stops_the_planes(start: Start) -> None:
    supervised = start()
    supervised.wait_for_event("both", "ready")
    supervised.process.send_signal(signal.SIGHUP)
    assert supervised.finish()[0] == 0
    assert ("segments", "SIGTERM") in read_events(supervised.journal)


def test_interrupt_of_the_whole_group_reaches_a_plane_once(start: Start) -> None:
    supervised = start()
    supervised.wait_for_event("both", "ready")
    os.killpg(supervised.process.pid, signal.SIGINT)
    assert supervised.finish()[0] == 0
    assert read_events(supervised.journal).count(("metadata", "SIGINT")) == 1


def test_plane_that_dies_is_started_again_and_said_to_be_back(start: Start) -> None:
    supervised = start()
    supervised.wait_for_event("both", "ready")
    os.kill(read_pid(supervised.journal, "segments"), signal.SIGKILL)
    supervised.wait_for_event("segments", "back")
    os.kill(read_pid(supervised.journal, "segments"), signal.SIGKILL)
    supervised.wait_for_event("segments", "back", times=2)
    supervised.process.send_signal(signal.SIGTERM)
    exit_code, said = supervised.finish()
    events = read_events(supervised.journal)
    assert exit_code == 0
    assert (events.count(("segments", "started")), events.count(("metadata", "started"))) == (3, 1)
    assert events.count(("both", "ready")) == 1
    assert "The segments plane died (SIGKILL): starting it again at once." in said
    assert "The segments plane died (SIGKILL): starting it again in 0.25 s." in said


def test_plane_that_fails_before_it_is_ready_delays_the_ready_line(start: Start) -> None:
    supervised = start(metadata="exit:1,exit:1,serve")
    events = supervised.wait_for_event("both", "ready")
    assert events.count(("metadata", "started")) == 3
    assert ("metadata", "back") not in events


def test_configuration_that_cannot_work_stops_both_planes(start: Start) -> None:
    supervised = start(metadata="exit:78")
    exit_code, said = supervised.finish()
    events = read_events(supervised.journal)
    assert exit_code == EXIT_CONFIG
    assert said.count("The metadata plane cannot run with this configuration: stopping.") == 1
    assert events.count(("metadata", "started")) == 1
    assert ("both", "ready") not in events


def test_configuration_that_has_worked_before_is_tried_again(start: Start) -> None:
    supervised = start(segments="serve,exit:78,serve")
    supervised.wait_for_event("both", "ready")
    os.kill(read_pid(supervised.journal, "segments"), signal.SIGKILL)
    events = supervised.wait_for_event("segments", "back")
    assert events.count(("segments", "started")) == 3
    assert ("metadata", "ended") not in events
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.finish()[0] == 0


def test_stop_while_a_restart_is_due_starts_nothing_more(start: Start) -> None:
    supervised = start(metadata="exit:1")
    supervised.wait_for_event("metadata", "started", times=3)
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.finish()[0] == 0
    started = read_events(supervised.journal).count(("metadata", "started"))
    assert started in {3, 4}


def test_plane_that_does_not_stop_is_killed_after_the_drain(start: Start) -> None:
    supervised = start(metadata="deaf", drain_seconds=0.5)
    supervised.wait_for_event("both", "ready")
    supervised.process.send_signal(signal.SIGTERM)
    exit_code, said = supervised.finish()
    events = read_events(supervised.journal)
    assert exit_code == 0
    assert "The metadata plane did not stop in time: killing it." in said
    assert ("metadata", "SIGTERM") in events
    assert ("metadata", "ended") not in events
    assert ("segments", "ended") in events


def test_planes_end_by_themselves_after_kill_nine_of_the_supervisor(start: Start) -> None:
    supervised = start()
    supervised.wait_for_event("both", "ready")
    supervised.process.kill()
    events = supervised.wait_for(lambda seen: {("metadata", "ended"), ("segments", "ended")} <= set(seen))
    assert {("metadata", "lifeline"), ("segments", "lifeline")} <= set(events)


def test_backoff_doubles_up_to_five_seconds() -> None:
    backoff = RestartBackoff()
    assert [backoff.delay_s(lived_s=1.0) for _ in range(8)] == [0, 0.25, 0.5, 1, 2, 4, 5, 5]


@given(lives=st.lists(st.floats(min_value=0, max_value=29.9), max_size=2000))
def test_backoff_starts_afresh_after_a_life_of_thirty_seconds(lives: list[float]) -> None:
    backoff = RestartBackoff()
    for lived_s in lives:
        assert backoff.delay_s(lived_s=lived_s) <= 5
    assert backoff.delay_s(lived_s=30.0) == 0
    assert backoff.delay_s(lived_s=29.0) == 0.25
