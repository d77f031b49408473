"""Values in memory, bounded by their bytes: the least recently used go first, and each may have a time to expire.

What is worth keeping, and for how long, is the owner's to say.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Value]):
    value: Value
    size_bytes: int
    expires_at_s: float | None


class ByteBoundedCache(Generic[Key, Value]):
    """Safe to use from many threads. `monotonic_s` is the clock that times to expire are read off.

    A value that was computed from a state of the world before a `discard` may be wrong after it. So whoever fills the
    cache takes the `generation` first, and a `put` of an earlier one than the last discard's keeps nothing.
    """

    def __init__(self, max_bytes: int, *, monotonic_s: Callable[[], float]) -> None:
        self.max_bytes = max_bytes
        self._monotonic_s = monotonic_s
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._held_bytes = 0
        self._generation = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def generation(self) -> int:
        return self._generation

    def get(self, key: Key) -> Value | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.expires_at_s is not None and self._monotonic_s() >= entry.expires_at_s:
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(
        self, key: Key, value: Value, *, size_bytes: int, generation: int, expires_at_s: float | None = None
    ) -> None:
        """Keeps the value, instead of what had the key; not one that is larger than the whole cache."""
        with self._lock:
            if generation != self._generation:
                return
            self._remove(key)
            if size_bytes > self.max_bytes:
                return
            while self._held_bytes + size_bytes > self.max_bytes:
                self._remove(next(iter(self._entries)))
            self._entries[key] = _Entry(value, size_bytes, expires_at_s)
            self._held_bytes += size_bytes

    def discard(self, *keys: Key) -> None:
        """Forgets values, also those that are just being computed."""
        with self._lock:
            self._generation += 1
            for key in keys:
                self._remove(key)

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._held_bytes -= entry.size_bytes
