"""Has the loops over records compiled beside a plane that serves already, so that the first read of records need not.

In a process of its own, of the lowest priority: on two busy cores a health check took up to 0.3 s while numba compiled
in the plane, and 0.1 s while it did so beside it; and a plane that reads no records need not have the memory. A read
that comes before it is done compiles by itself.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

from tiergate_client.kernel_mark import is_filled
from tiergate_server.worker import Worker

_logger = logging.getLogger(__name__)

_NEEDED = ("numba", "numpy", "pyarrow")
_COMMAND = ("-P", "-m", "tiergate_client.records.compile_kernels", "--until-stdin-ends")
_LOWEST_PRIORITY = 19


def warm_kernels(worker: Worker | None) -> Callable[[], None]:
    """Returns at once, and never fails. What it returns ends the process, which also ends if the plane is killed.

    Of several workers the first one does so: the others find what it has compiled, and so does the next start.
    """
    if (worker is not None and worker.number != 1) or not all(map(find_spec, _NEEDED)) or is_filled():
        return lambda: None
    try:
        process = subprocess.Popen(
            [sys.executable, *_COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,  # Ctrl-C at a terminal is for the plane
        )
    except OSError as error:
        _logger.info(
            "The first read of records may compile for seconds, since no process could do so before: %s", error
        )
        return lambda: None
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
    waiting = threading.Thread(target=_wait, args=(process,), name="kernel-warming", daemon=True)
    waiting.start()

    def end() -> None:
        process.kill()
        waiting.join()

    return end


def _wait(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None  # noqa: S101 - for the type checker: it is a pipe
    with process:
        said = process.stderr.read().strip()  # communicate() would close the standard input, which ends the process
        exit_code = process.wait()
    if exit_code > 0:
        reason = said.splitlines()[-1] if said else f"exit code {exit_code}"
        _logger.info("The first read of records may compile for seconds: %s", reason)
