"""The whole service as one command that a person starts, on free ports, until it is ready to be used."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.wheels import plain_environment

_READY = re.compile(r"Tiergate is ready: metadata at (\S+), segments at ([^\s\"]+)\.")

_ENDED_BY_CTRL_C = (0, -signal.SIGINT, 128 + signal.SIGINT)  # by itself; as make and shells end


@contextmanager
def started_service(command: Sequence[str], *, data_directory: Path, cwd: Path) -> Iterator[str]:
    """Runs `tiergate serve`, or what starts it; yields the metadata plane's address, and ends it as Ctrl-C does."""
    addresses = {
        f"TIERGATE_{plane}_{purpose}": "127.0.0.1:0"
        for plane in ("METADATA", "SEGMENTS")
        for purpose in ("LISTEN", "METRICS")
    }
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=plain_environment(TIERGATE_DATA_DIRECTORY=str(data_directory), **addresses),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        yield _wait_until_ready(process.stderr)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode in _ENDED_BY_CTRL_C, rest
    assert "Traceback" not in rest, rest


def _wait_until_ready(lines: Iterator[str]) -> str:
    seen = []
    for line in lines:
        seen.append(line)
        if ready := _READY.search(line):
            return ready.group(1)
    raise AssertionError("the service ended before it was ready:\n" + "".join(seen))
