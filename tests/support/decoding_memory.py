"""How much memory was taken at most, of Python's and numpy's allocators and of Arrow's pool."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


class MemoryPeak:
    """Since watching began; the sum of two peaks, which may not have been at the same time."""

    def __init__(self, pool: pa.MemoryPool) -> None:
        self._pool = pool

    @property
    def size_bytes(self) -> int:
        _, traced = tracemalloc.get_traced_memory()
        taken: int = self._pool.max_memory()
        return traced + taken

    @property
    def held_bytes(self) -> int:
        """What is taken now."""
        traced, _ = tracemalloc.get_traced_memory()
        taken: int = self._pool.bytes_allocated()
        return traced + taken


_pools: list[pa.MemoryPool] = []
"""Never given up: what came from a pool may outlive the watching."""


@contextmanager
def watched_memory() -> Iterator[MemoryPeak]:
    usual = pa.default_memory_pool()
    _pools.append(pa.proxy_memory_pool(usual))
    pa.set_memory_pool(_pools[-1])
    tracemalloc.start()
    try:
        yield MemoryPeak(_pools[-1])
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
