"""Makes .venv hold what the service needs (`set_up.py run`) or what its tests need too (`set_up.py test`).

Only the standard library is used: this runs before anything is installed. When it has to run is make's to decide, by
the stamps that are left in .venv.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOG = VENV / "set-up.log"

# Installed rather than left to pip's isolated builds, so that their versions are pinned as well and setting up again
# needs no network.
BUILD_TOOLS = ("hatchling", "editables")
BUILD_TOOLS_UNDER_TEST = ("setuptools",)
"""PySpark comes as a source distribution, and what a new .venv brings of setuptools is too old for it, or nothing."""
DISTRIBUTIONS = ("protos", "client/python", "server")
DISTRIBUTIONS_UNDER_TEST = ("spark_connector",)
TICK_S = 1.0
QUIET_S = 2.0
LAST_LINES = 30


def main(goal: str) -> int:
    with _alone():
        if not (VENV / "bin" / "pip").exists():
            _step("making .venv", [sys.executable, "-m", "venv", str(VENV)])
        _pip("installing what builds the distributions", *BUILD_TOOLS)
        _pip("installing the service and what it needs", "--no-build-isolation", *_editable(DISTRIBUTIONS))
        (VENV / ".run-ready").touch()
        if goal == "test":
            _pip("installing what builds PySpark", *BUILD_TOOLS_UNDER_TEST)
            words = ["--requirement", str(ROOT / "requirements-dev.txt"), *_editable(DISTRIBUTIONS_UNDER_TEST)]
            _pip("installing what the tests need", "--no-build-isolation", *words)
            (VENV / ".test-ready").touch()
    return 0


def _editable(directories: Sequence[str]) -> list[str]:
    return [word for directory in directories for word in ("--editable", str(ROOT / directory))]


@contextmanager
def _alone() -> Iterator[None]:
    """Two runs of make at once take turns."""
    VENV.mkdir(exist_ok=True)
    with (VENV / ".set-up-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pip(title: str, *words: str) -> None:
    # Compiling every file that is installed takes as long as the rest; Python compiles those that are imported.
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    _step(title, [*pip, "--constraint", str(ROOT / "constraints.txt"), *words])


def _step(title: str, command: Sequence[str]) -> None:
    """Runs a command behind one line of output that says how long it takes."""
    is_terminal = sys.stdout.isatty()
    print(title, end=" " if is_terminal else "\n", flush=True)
    began = time.monotonic()
    with LOG.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while True:
            try:
                exit_code = process.wait(TICK_S)
                break
            except subprocess.TimeoutExpired:
                elapsed_s = time.monotonic() - began
                if is_terminal and elapsed_s > QUIET_S:
                    print(f"\r{title} … {elapsed_s:.0f} s", end="", flush=True)
    if is_terminal:
        print(flush=True)
    if exit_code != 0:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        print("\n".join(lines), file=sys.stderr)
        sys.exit(f"{title} failed (exit code {exit_code}): the lines above and {LOG} say why.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
