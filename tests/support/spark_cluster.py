"""A Spark of several processes, whose Python workers have our packages from a zip and from nowhere else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.processes import ChildProcess, descendants
from support.wheels import ROOT, plain_environment

_MASTER: Final = "local-cluster[2,1,1024]"
_DRIVER: Final = Path(__file__).with_name("cluster_driver.py")


class SparkCluster:
    def __init__(self, process: subprocess.Popen[str], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file
        self.package = str(self._answer()["ready"])
        """Where executors import the source from."""

    def begin_read(self, options: dict[str, str]) -> None:
        self._ask(options)

    def ship(self) -> str:
        """Sends the package as a session that runs does it, and tells where executors import it from."""
        self._ask("ship")
        answer = self._answer()
        assert "shipped" in answer, answer
        return str(answer["shipped"])

    def offsets(self) -> list[int]:
        """Of the rows of the read that was begun, as they came."""
        answer = self._answer()
        assert "offsets" in answer, answer
        offsets: list[int] = answer["offsets"]
        return offsets

    def kill_python_workers(self) -> int:
        """Those that run tasks; returns how many there were."""
        daemons = {one.pid for one in self._below() if "pyspark.daemon pyspark.worker" in one.command}
        return _kill([one for one in self._below() if one.parent in daemons])

    def kill_executor(self) -> int:
        executors = [one for one in self._below() if "CoarseGrainedExecutorBackend" in one.command]
        return _kill(executors[:1])

    def _below(self) -> list[ChildProcess]:
        return descendants(self._process.pid)

    def _ask(self, what: dict[str, str] | str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver ended:\n{self._log_file.read_text()[-4000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running_cluster(directory: Path, package: Path) -> Iterator[SparkCluster]:
    """`package` is the zip that is given as --py-files."""
    log_file = directory / "driver.log"
    # A Python without our packages: those of others are put on its path, where files that would add ours do not count.
    others = sysconfig.get_path("purelib")
    environment = plain_environment(
        PYSPARK_SUBMIT_ARGS=f"--master {_MASTER} --py-files {package} pyspark-shell",
        PYSPARK_PYTHON=str(Path(sys.base_prefix) / "bin" / f"python{sysconfig.get_python_version()}"),
        PYTHONPATH=os.pathsep.join((others, str(ROOT / "tests"))),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_DIRS=str(directory / "local"),
        SPARK_WORKER_DIR=str(directory / "work"),
    )
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(_DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    try:
        yield SparkCluster(process, log_file)
    finally:
        left = descendants(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            _kill(left)
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _kill(processes: list[ChildProcess]) -> int:
    for one in processes:
        os.kill(one.pid, signal.SIGKILL)
    return len(processes)
