"""`tiergate-spark` as a process of its own, which can be killed with its JVM and its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from support.spark import SPARK_SETTINGS
from support.waiting import wait_until
from tiergate_spark import spark_submit

_SPARK_SUBMIT: Final = Path(sys.executable).with_name("spark-submit")
_MAIN_FILE: Final = Path(spark_submit.__file__).with_name("main.py")


def spark_command(target: str, *words: str) -> list[str]:
    settings = [word for name, value in SPARK_SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    program = [sys.executable, "-m", "tiergate_spark"]
    return [*program, "--target", target, "--master", "local[2]", *settings, *words]


def submitted_command(target: str, *words: str) -> list[str]:
    """The same through spark-submit."""
    settings = [word for name, value in SPARK_SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    return [str(_SPARK_SUBMIT), "--master", "local[2]", *settings, str(_MAIN_FILE), "--target", target, *words]


def run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False, timeout=150)


def kill_when(command: list[str], condition: Callable[[], bool], *, log: Path) -> None:
    """Starts a command, and kills everything of it as soon as the condition holds; it must not have ended by then."""
    with _started(command, log) as process:
        wait_until(lambda: condition() or process.poll() is not None, timeout_s=100)
        assert process.poll() is None, f"it ended too soon:\n{log.read_text()}"


def interrupt_when(command: list[str], condition: Callable[[], bool], *, log: Path) -> int:
    """Starts a command, presses Ctrl-C as soon as the condition holds, and returns the exit code."""
    with _started(command, log) as process:
        wait_until(lambda: condition() or process.poll() is not None, timeout_s=100)
        assert process.poll() is None, f"it ended too soon:\n{log.read_text()}"
        os.killpg(process.pid, signal.SIGINT)
        return process.wait(60)


@contextmanager
def _started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=_environment(), stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # of what was interrupted nothing may be left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
