from __future__ import annotations

import sys
from collections.abc import Iterator

import crc32c
import pytest

from tiergate_client._fast_crc32c import fast_crc32c


@pytest.fixture(autouse=True)
def _forgets_what_was_loaded() -> Iterator[None]:
    fast_crc32c.cache_clear()
    yield
    fast_crc32c.cache_clear()


@pytest.mark.parametrize("has_awscrt", [True, False])
@pytest.mark.parametrize("size", [0, 1, 9, 4096, 100_000])
def test_checksum_is_the_same_with_either_library(monkeypatch: pytest.MonkeyPatch, has_awscrt: bool, size: int) -> None:
    if not has_awscrt:
        monkeypatch.setitem(sys.modules, "awscrt.checksums", None)
    assert (fast_crc32c() is crc32c.crc32c) is not has_awscrt
    content = memoryview(bytes(range(256)) * 400)[:size]
    assert fast_crc32c()(content) == crc32c.crc32c(content)


def test_checksum_is_the_published_one() -> None:
    assert fast_crc32c()(memoryview(b"123456789")) == 0xE3069283
