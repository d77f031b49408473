"""Records are decoded from a zip as from an installed package: compiled once on a machine, and without numba too."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from support.record_batches import MadeBatch, MadeRecord
from support.wheels import ROOT

_DECODE = """
import sys
archive, is_blocked, batch = sys.argv[1:]
sys.path.insert(0, archive)
if is_blocked == "without numba":
    sys.modules["numba"] = None
import tiergate_client
from tiergate_client.records import decode_batches
from tiergate_client.records.engines import engine
assert tiergate_client.__file__.startswith(archive)
assert [one["value"].to_pylist() for one in decode_batches(bytes.fromhex(batch))] == [[b"v"]]
loops = getattr(engine(), "_kernels", None)
compiled = [] if loops is None else [loops.read_records, loops.index_headers, loops.gather]
print(type(engine()).__name__, *(sum(loop.stats.cache_hits.values()) for loop in compiled))
"""


def decode(archive: Path, cache: Path, how: str = "with numba", **environment: str) -> str:
    batch = MadeBatch((MadeRecord(0, value=b"v"),)).encode().hex()
    finished = subprocess.run(
        [sys.executable, "-c", _DECODE, str(archive), how, batch],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def make_archive(path: Path) -> Path:
    source = ROOT / "client" / "python" / "src"
    with zipfile.ZipFile(path, "w") as zipped:
        for file in sorted((source / "tiergate_client").rglob("*.py")):
            zipped.write(file, file.relative_to(source))
    return path


def test_loops_are_compiled_once_for_zips_of_any_path(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert decode(make_archive(tmp_path / "first.zip"), cache) == "NumbaEngine 0 0 0"
    assert decode(make_archive(tmp_path / "second.zip"), cache) == "NumbaEngine 1 1 1"


def test_copy_that_was_changed_in_the_cache_is_not_run(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    archive = make_archive(tmp_path / "client.zip")
    decode(archive, cache)
    (copy,) = cache.rglob("_kernels.py")
    genuine = copy.read_bytes()
    copy.write_text("raise SystemExit('changed')\n")
    assert decode(archive, cache).startswith("NumbaEngine")
    assert copy.read_bytes() == genuine


def test_cache_that_can_not_be_written_does_no_harm(tmp_path: Path) -> None:
    in_the_way, temporary = tmp_path / "cache", tmp_path / "temporary"
    in_the_way.touch()
    temporary.mkdir()
    decoded = decode(make_archive(tmp_path / "client.zip"), in_the_way, TMPDIR=str(temporary))
    assert decoded.startswith("NumbaEngine")
    assert not list(temporary.iterdir())


def test_numpy_is_taken_where_numba_is_missing(tmp_path: Path) -> None:
    assert decode(make_archive(tmp_path / "client.zip"), tmp_path, "without numba") == "NumpyEngine"


def test_missing_extra_is_named() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import tiergate_client; import tiergate_client.records"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert finished.stderr.splitlines()[-1] == (
        "ImportError: tiergate_client.records needs pyarrow: install tiergate-client with its extra 'records'."
    )
