"""A supervisor of two stand-in planes, as a program, since signals and kill -9 need a process of their own.

    stand_in_supervisor.py JOURNAL DRAIN_SECONDS METADATA_BEHAVIOURS SEGMENTS_BEHAVIOURS

Behaviours are separated by commas. It writes `both ready` and `PLANE back` to JOURNAL and exits with what run() says.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from tiergate_server.supervisor import PlaneCommand, Supervisor


def main() -> None:
    journal, drain_seconds, *behaviours = sys.argv[1:]
    program = str(Path(__file__).with_name("stand_in_plane.py"))

    def note(text: str) -> None:
        with Path(journal).open("a", encoding="utf-8") as lines:
            lines.write(f"{text} {os.getpid()}\n")

    logging.basicConfig(level="INFO", format="%(message)s")
    supervisor = Supervisor(
        [
            PlaneCommand(plane, [sys.executable, program, journal, plane, *each.split(",")], os.environ)
            for plane, each in zip(("metadata", "segments"), behaviours, strict=True)
        ],
        drain_seconds=float(drain_seconds),
        on_all_ready=lambda ready: note("both ready" if set(ready) == {"metadata", "segments"} else "both wrong"),
        on_back=lambda plane, _ready: note(f"{plane} back"),
        kill_margin_seconds=0.5,
    )
    sys.exit(supervisor.run())


if __name__ == "__main__":
    main()
