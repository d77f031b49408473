"""The decoder under a fuzzer that is guided by coverage, for as long as FUZZ_SECONDS says."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from fuzz.decoder_target import check, seeds

_TARGET = Path(__file__).with_name("decoder_target.py")


def test_target_agrees_with_the_plain_decoder_over_its_seeds() -> None:
    for seed in seeds():
        check(seed)
    for content in (b"", b"\0", b"\1" + seeds()[0][1:-1]):
        check(content)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris has no wheel for this Python or machine")
def test_fuzzer_finds_nothing(tmp_path: Path) -> None:
    seconds = os.environ.get("FUZZ_SECONDS", "120")
    ended = subprocess.run(
        [
            sys.executable,
            _TARGET,
            tmp_path / "corpus",
            f"-max_total_time={seconds}",
            f"-artifact_prefix={tmp_path}/",
            "-max_len=4096",
            "-timeout=20",
            "-rss_limit_mb=2048",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [f"{path.name}: {path.read_bytes().hex()}" for path in tmp_path.glob("*-*") if path.is_file()]
    assert ended.returncode == 0, "\n".join([*found, ended.stderr[-5000:]])
    assert "Done " in ended.stderr
