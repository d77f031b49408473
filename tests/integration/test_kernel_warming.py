"""The segment plane compiles the loops over records beside itself as soon as it serves, and leaves nobody behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.health import is_serving
from support.planes import PlaneProcess
from support.processes import ChildProcess, descendants
from support.waiting import wait_until


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As of a machine that has never compiled."""
    path = tmp_path / "cache"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(path))
    return path


@pytest.fixture
def plane(tmp_path: Path, cache: Path) -> Iterator[PlaneProcess]:
    settings = {"segments.listen": "127.0.0.1:0", "segments.metrics": ""}
    started = PlaneProcess("segments", data_directory=tmp_path / "data", settings=settings)
    yield started
    if started.is_running():
        started.kill()


def compilers(plane: PlaneProcess) -> list[ChildProcess]:
    return [one for one in descendants(plane.pid) if "compile_kernels" in one.command]


def compiler_of(plane: PlaneProcess) -> int:
    wait_until(lambda: len(compilers(plane)) == 1)
    return compilers(plane)[0].pid


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_plane_that_serves_has_the_loops_compiled_with_the_lowest_priority(plane: PlaneProcess, cache: Path) -> None:
    plane.start()
    compiler = compiler_of(plane)
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, compiler) == 19)
    wait_until(lambda: any(cache.rglob("_kernels.*.nbc")), timeout_s=100)  # all others go first, as they shall
    assert is_serving(plane.address)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_compiling_ends_with_the_plane(plane: PlaneProcess, cache: Path, end: str) -> None:
    plane.start()
    compiler = compiler_of(plane)
    getattr(plane, end)()
    wait_until(lambda: not is_alive(compiler))
    assert not list(cache.rglob("_framing_kernels.*")), "it was not done"
