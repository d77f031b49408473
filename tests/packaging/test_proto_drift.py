"""The committed stubs are what the .proto files generate, and the .proto files follow buf's rules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROTOS = Path(__file__).parents[2] / "protos"
_GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def _stubs(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): file.read_text(encoding="utf-8")
        for pattern in _GENERATED
        for file in directory.rglob(pattern)
    }


@pytest.mark.timeout(300)  # the first run installs the toolchain
def test_committed_stubs_are_what_the_protos_generate(tmp_path: Path) -> None:
    subprocess.run([_PROTOS / "generate.sh", tmp_path], env={**os.environ, "PYTHON": sys.executable}, check=True)
    generated, committed = _stubs(tmp_path), _stubs(_PROTOS)
    assert generated
    assert generated.keys() == committed.keys()
    changed = [name for name, text in generated.items() if text != committed[name]]
    assert not changed, "run `make proto`"


def test_protos_follow_the_rules_of_buf() -> None:
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    finished = subprocess.run([_PROTOS / "lint.sh"], env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
