"""A program that stands in for a plane: it says that it is ready, then stops as it is told. Started by the tests.

    stand_in_plane.py JOURNAL PLANE BEHAVIOUR… --ready-fd N --lifeline-fd N

It appends one line per event to JOURNAL. Each start takes the BEHAVIOUR of its number, the last one for all further
starts: `serve`, `deaf` (ignores signals), or `exit:CODE` before it is ready.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from tiergate_server.supervisor import watch_lifeline


def main() -> None:
    journal, plane, *behaviours = sys.argv[1 : sys.argv.index("--ready-fd")]
    ready_fd, lifeline_fd = int(sys.argv[-3]), int(sys.argv[-1])
    starts = read_events(Path(journal)).count((plane, "started"))
    behaviour = behaviours[min(starts, len(behaviours) - 1)]

    def note(event: str) -> None:
        with Path(journal).open("a", encoding="utf-8") as lines:
            lines.write(f"{plane} {event} {os.getpid()}\n")

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):

        def on_signal(received: int, _frame: object) -> None:
            note(signal.Signals(received).name)
            if behaviour != "deaf":
                ended.set()

        signal.signal(number, on_signal)
    note("started")
    if behaviour.startswith("exit:"):
        sys.exit(int(behaviour.removeprefix("exit:")))

    def on_lifeline_end() -> None:
        note("lifeline")
        ended.set()

    watch_lifeline(lifeline_fd, on_lifeline_end)
    os.write(ready_fd, json.dumps({"plane": plane, "address": f"{plane}:1", "metrics": ""}).encode() + b"\n")
    while not ended.wait(0.05):
        pass
    note("ended")


def read_events(journal: Path) -> list[tuple[str, str]]:
    """(plane, event) of each whole line so far."""
    if not journal.exists():
        return []
    return [(words[0], words[1]) for words in map(str.split, journal.read_text(encoding="utf-8").splitlines())]


def read_pid(journal: Path, plane: str) -> int:
    """The process that started last."""
    words = [line.split() for line in journal.read_text(encoding="utf-8").splitlines()]
    return next(int(pid) for name, event, pid in reversed(words) if (name, event) == (plane, "started"))


if __name__ == "__main__":
    main()
