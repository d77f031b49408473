"""Where the compiled loops over records are kept: filled ahead as in the image, read-only, or nowhere at all."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.record_batches import MadeBatch, MadeRecord
from support.wheels import ROOT

# Root without what makes all files his: nothing is read-only for him otherwise.
_PLAIN_ROOT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
_DECODE = """
import sys
from tiergate_client.records import decode_batches
from tiergate_client.records.engines import engine
from tiergate_client.records.record_framing import _framing, frame_records
columns = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
(decoded,) = decode_batches(bytes.fromhex(sys.argv[1]), columns=columns)
assert b"value" in frame_records(decoded).content.tobytes()
loops = getattr(engine(), "_kernels", None)
names = ("walk_batches", "decompress", "read_records", "index_headers", "gather")
compiled = [] if loops is None else [*(getattr(loops, name) for name in names), _framing()]
print(type(engine()).__name__, *(sum(loop.stats.cache_hits.values()) for loop in compiled))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The client in a place beside which nothing can be kept, also by root."""
    place = tmp_path / "installed"
    source = ROOT / "client" / "python" / "src" / "tiergate_client"
    shutil.copytree(source, place / "tiergate_client", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "tiergate_client" / "records" / "__pycache__").touch()
    return place


@pytest.fixture
def no_directory(tmp_path: Path) -> Path:
    path = tmp_path / "no directory"
    path.touch()
    return path


def run(words: list[str], package: Path, home: Path, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """What it wrote to both outputs. Runs as one who can not write what is read-only."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    finished = subprocess.run(
        [*(_PLAIN_ROOT if os.geteuid() == 0 else ()), sys.executable, *words],
        env={**inherited, "HOME": str(home), "PYTHONPATH": str(package), **(environment or {})},
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip(), finished.stderr


def decode_words(*, before: str = "") -> list[str]:
    return ["-c", before + _DECODE, MadeBatch((MadeRecord(0, value=b"value"),)).encode().hex()]


def test_loops_are_compiled_for_one_process_where_nothing_can_be_kept(
    package: Path, no_directory: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    decoded, said = run(decode_words(), package, no_directory, {"TMPDIR": str(temporary)})
    assert decoded == "NumbaEngine 0 0 0 0 0 0"
    assert not said
    assert not list(temporary.iterdir())


def test_numpy_is_taken_and_one_warning_given_where_not_even_temporary_files_can_be_written(
    package: Path, no_directory: Path
) -> None:
    words = decode_words(before="import tempfile; tempfile.tempdir = '/dev/null'")
    decoded, said = run(words, package, no_directory)
    assert decoded == "NumpyEngine"
    assert said.startswith("Records are decoded without numba, many times slower, since it can not compile: ")
    assert said.count("\n") == 1


def test_numpy_is_taken_and_one_warning_given_where_numba_is_installed_and_refuses_to_load(
    package: Path, tmp_path: Path
) -> None:
    (package / "numba.py").write_text("raise ImportError('Numba needs NumPy 1.0 or less')\n")
    decoded, said = run(decode_words(), package, tmp_path)
    assert decoded == "NumpyEngine"
    assert said == (
        "Records are decoded without numba, many times slower, since it can not load: Numba needs NumPy 1.0 or less\n"
    )


def test_command_that_fills_the_cache_says_where_nothing_can_be_kept(package: Path, no_directory: Path) -> None:
    with pytest.raises(AssertionError, match=r"can not be kept: .* Set NUMBA_CACHE_DIR to a directory"):
        run(["-m", "tiergate_client.records.compile_kernels"], package, no_directory)


def image_settings() -> tuple[list[str], dict[str, str]]:
    """How the image fills the cache: the words behind `python`, and the variables that are set there and later on."""
    instructions = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (fill,) = [line for line in instructions if "compile_kernels" in line]
    program, *words = shlex.split(fill.removeprefix("RUN "))
    assert program == "python"
    (settings,) = [line for line in instructions if line.startswith("ENV NUMBA_")]
    user, serving = instructions.index("USER tiergate"), instructions.index('ENTRYPOINT ["tiergate"]')
    assert user < instructions.index(settings) < instructions.index(fill) < serving, "by the user that it is for"
    return words, dict(pair.split("=", 1) for pair in settings.removeprefix("ENV ").split())


def test_image_keeps_the_loops_outside_the_volume_in_a_directory_of_its_user() -> None:
    _, settings = image_settings()
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"install --directory --owner tiergate {settings['NUMBA_CACHE_DIR']}\n" in dockerfile
    assert not Path(settings["NUMBA_CACHE_DIR"]).is_relative_to("/var/lib/tiergate")
    assert settings["NUMBA_CPU_NAME"] == "generic", "it is built on one processor and run on another"


def test_container_finds_what_its_image_compiled_and_so_it_does_read_only(
    package: Path, no_directory: Path, tmp_path: Path
) -> None:
    words, settings = image_settings()
    cache = tmp_path / "cache"
    environment = {**settings, "NUMBA_CACHE_DIR": str(cache)}
    run(words, package, no_directory, environment)
    assert run(decode_words(), package, no_directory, environment)[0] == "NumbaEngine 1 1 1 1 1 1"
    for directory in [cache, *(path for path in cache.rglob("*") if path.is_dir())]:
        directory.chmod(0o555)
    # A home that can be written does not bring numba to compile there anew.
    home = tmp_path / "home"
    home.mkdir()
    assert run(decode_words(), package, home, environment)[0] == "NumbaEngine 1 1 1 1 1 1"
    run(words, package, home, environment)
    assert not list(home.rglob("*"))
