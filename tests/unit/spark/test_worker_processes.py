"""What is done to the processes of PySpark, and to no others."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tiergate_spark.worker_memory import keep_freed_memory

_SETTLED = """
    import gc, sys, types
    from tiergate_spark.settling import settle
    sys.modules["__main__"].__spec__ = {spec}
    settle(); frozen = gc.get_freeze_count(); kept = [[] for _ in range(100)]; settle()
    print(frozen > 0, gc.get_freeze_count() == frozen)
"""


@pytest.mark.parametrize(
    ("spec", "said"), [('types.SimpleNamespace(name="pyspark.daemon")', "True True"), ("None", "False True")]
)
def test_what_is_there_is_frozen_once_in_processes_of_pyspark_only(spec: str, said: str) -> None:
    program = textwrap.dedent(_SETTLED.format(spec=spec))
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == said.split()


_FAULTS = """
    import resource, sys
    import numpy as np
    from tiergate_spark.worker_memory import keep_freed_memory
    if sys.argv[1] == "kept":
        keep_freed_memory()
    def use():
        held = [np.ones(1 << 20) for _ in range(3)]
        del held
    use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        use()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not Path("/usr/bin/ldd").exists() or sys.platform != "linux", reason="needs glibc")
def test_memory_that_was_freed_is_used_again() -> None:
    def faults(kept: str) -> int:
        command = [sys.executable, "-c", textwrap.dedent(_FAULTS), kept]
        return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)

    assert faults("kept") < faults("as ever") / 10


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    keep_freed_memory.cache_clear()
    keep_freed_memory()
    keep_freed_memory.cache_clear()
