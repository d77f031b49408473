"""Nothing that goes wrong while loops are compiled beside a plane concerns the plane."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until
from tiergate_client.kernel_mark import is_filled, set_filled
from tiergate_server.kernel_warming import warm_kernels
from tiergate_server.worker import Worker


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing was compiled into it."""
    path = tmp_path / "cache"
    path.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(path))
    return path


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for Python."""
    path = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(path))
    return path


def write_script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


def test_reason_is_logged_when_nothing_was_compiled(interpreter: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_script(interpreter, "echo Traceback >&2", "echo There is no room. >&2", "exit 1")
    with caplog.at_level(logging.INFO):
        end = warm_kernels(None)
        wait_until(lambda: bool(caplog.messages))
    assert caplog.messages == ["The first read of records may compile for seconds: There is no room."]
    end()


def test_process_that_can_not_be_started_is_logged(interpreter: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        warm_kernels(None)()
    (message,) = caplog.messages
    assert message.startswith(
        "The first read of records may compile for seconds, since no process could do so before: "
    )
    assert str(interpreter) in message


def test_end_does_not_wait_for_what_is_still_compiled_and_is_no_failure(
    interpreter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_script(interpreter, f"touch '{tmp_path}/started'", "exec sleep 1000")
    with caplog.at_level(logging.INFO):
        end = warm_kernels(None)
        wait_until((tmp_path / "started").exists)
        end()
    assert not caplog.messages


@pytest.mark.parametrize("missing", ["numba", "pyarrow"])
def test_no_process_is_started_where_a_package_is_missing(
    interpreter: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    assert not interpreter.exists(), "an attempt to start it would be logged"
    monkeypatch.setitem(sys.modules, missing, None)
    with caplog.at_level(logging.INFO):
        warm_kernels(None)()
    assert not caplog.messages


@pytest.mark.parametrize("number", [None, 1], ids=["only", "first"])
def test_process_is_started_by_the_only_process_or_the_first_worker(
    interpreter: Path, tmp_path: Path, number: int | None
) -> None:
    write_script(interpreter, f"touch '{tmp_path}/started'")
    end = warm_kernels(None if number is None else Worker(number, 3, tmp_path))
    wait_until((tmp_path / "started").exists)
    end()


@pytest.mark.parametrize("number", [2, 3])
def test_no_process_is_started_by_further_workers(
    interpreter: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    assert not interpreter.exists(), "an attempt to start it would be logged"
    with caplog.at_level(logging.INFO):
        warm_kernels(Worker(number, 3, tmp_path))()
    assert not caplog.messages


def test_no_process_is_started_where_the_cache_was_filled_until_that_is_out_of_date(
    interpreter: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not interpreter.exists(), "an attempt to start it is logged"
    set_filled()
    with caplog.at_level(logging.INFO):
        warm_kernels(None)()
        assert not caplog.messages
        monkeypatch.setenv("NUMBA_CPU_NAME", "another")
        warm_kernels(None)()
        assert len(caplog.messages) == 1
        monkeypatch.delenv("NUMBA_CPU_NAME")
        for file in cache.iterdir():
            file.unlink()
        warm_kernels(None)()
        assert len(caplog.messages) == 2


def test_what_can_not_be_marked_is_no_failure(cache: Path) -> None:
    cache.rmdir()
    set_filled()
    assert not is_filled()


def test_compiling_says_that_the_cache_is_filled(cache: Path) -> None:
    subprocess.run([sys.executable, "-m", "tiergate_client.records.compile_kernels"], check=True)
    assert is_filled()
    assert list(cache.rglob("*.nbi"))
