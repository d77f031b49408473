"""The zip for executors holds our code alone, is the same each time, and runs on any release of Python."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from support.wheels import plain_environment
from tiergate_spark.shipping import PACKAGES, write_package_zip
from tiergate_spark.shipping.__main__ import main

_BARE_PYTHON = Path(sys.base_prefix) / "bin" / f"python{sysconfig.get_python_version()}"

_LOAD = """
import sys
import tiergate_spark.worker, tiergate_spark.source, pyspark_tiergate
from tiergate_client.records.engines import engine
print(type(engine()).__name__)
print(tiergate_spark.worker.__file__)
print(sys.modules["tiergate_client.records._kernels"].__file__.startswith(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package_zip(tmp_path_factory.mktemp("zip") / "tiergate-spark.zip")


def load_from(archive: Path) -> list[str]:
    """In a Python that has the packages of others and none of ours."""
    others = sysconfig.get_path("purelib")
    finished = subprocess.run(
        [_BARE_PYTHON, "-c", _LOAD, str(archive)],
        env=plain_environment(PYTHONPATH=f"{archive}:{others}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


def test_zip_holds_the_modules_of_our_packages_and_nothing_else(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)
    assert {Path(name).suffix for name in names} == {".py", ".pyc"}
    assert "tiergate/v1/records_pb2.py" in names
    assert len(names) == len(set(names))


def test_zip_is_the_same_each_time(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again.zip"
    assert main([str(again)]) == 0
    assert capsys.readouterr().out == f"{again}\n"
    assert again.read_bytes() == archive.read_bytes()


def test_command_that_cannot_write_tells_it_in_one_sentence(tmp_path: Path) -> None:
    for words, code, told in (
        (["--help"], 0, ""),
        (["a", "b"], 2, "unrecognized arguments: b"),
        ([str(tmp_path / "no" / "x.zip")], 1, "x.zip cannot be written: no such file or directory; name another place"),
    ):
        command = [sys.executable, "-m", "tiergate_spark.shipping", *words]
        finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert finished.returncode == code
        assert "Warning" not in finished.stderr
        assert finished.stderr.rstrip("\n").endswith(told)
        assert list(tmp_path.iterdir()) == []


def test_modules_come_compiled_and_the_loops_from_the_cache_of_the_node(archive: Path) -> None:
    assert load_from(archive) == ["NumbaEngine", f"{archive}/tiergate_spark/worker.pyc", "False"]


def test_another_release_of_python_takes_the_sources(archive: Path, tmp_path: Path) -> None:
    changed = tmp_path / "other-release.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(changed, "w") as sink:
        for name in source.namelist():
            content = source.read(name)
            sink.writestr(name, b"\x00\x01" + content[2:] if name.endswith(".pyc") else content)
    assert load_from(changed) == ["NumbaEngine", f"{changed}/tiergate_spark/worker.py", "False"]


def test_client_of_spark_connect_alone_imports_the_package_and_has_no_files_to_show() -> None:
    """Its `pyspark` comes without what a JVM of its own is needed for, and `SparkFiles` is of that."""
    program = "import pyspark; del pyspark.SparkFiles; from tiergate_spark.shipping import show_to_streams as s; s()"
    subprocess.run([sys.executable, "-c", program], check=True)
