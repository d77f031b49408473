"""One plane as a person starts it by hand, without a supervisor and what that one puts into its environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support import planes
from support.planes import PlaneProcess
from tiergate_server.supervisor.allocator import lacks_allocator_settings

CONFIG_ERROR = 78
FREE = {"segments.listen": "127.0.0.1:0", "segments.metrics": "", "metadata.metrics": ""}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_segment_plane_gets_the_allocator_settings_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "with_allocator_settings", dict)
    plane = PlaneProcess("segments", data_directory=tmp_path, settings=FREE)
    plane.start()
    try:
        entries = Path(f"/proc/{plane.pid}/environ").read_bytes().decode().split("\0")
        assert not lacks_allocator_settings(dict(entry.split("=", 1) for entry in entries if entry))
    finally:
        assert plane.stop() == 0


@pytest.mark.parametrize("plane", ["metadata", "segments"])
def test_port_in_use_ends_a_plane_with_one_sentence_and_nothing_else(tmp_path: Path, plane: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = ["--set", f"{plane}.listen={address}", "--set", f"{plane}.metrics=", "--data-dir", str(tmp_path)]
        ended = subprocess.run(
            [sys.executable, "-m", "tiergate_server", "serve", plane, *flags],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=60,
        )
    assert ended.returncode == CONFIG_ERROR
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"tiergate: {plane}.listen = {address} cannot be listened on")
