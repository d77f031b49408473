"""CRC-32C of many bytes, by the faster one of the libraries that may be there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import crc32c


@cache
def fast_crc32c() -> Callable[[memoryview], int]:
    """That of awscrt takes half the time, and 40 ms to import: hence not before it is needed."""
    try:
        from awscrt.checksums import crc32c as faster  # type: ignore[import-untyped] # noqa: PLC0415 - optional
    except ImportError:
        return crc32c.crc32c
    found: Callable[[memoryview], int] = faster
    return found
