from __future__ import annotations

import threading
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tiergate_server.segments.byte_bounded_cache import ByteBoundedCache

MAX_BYTES = 100
keys = st.sampled_from("abcdefgh")


@dataclass(frozen=True, slots=True)
class Kept:
    """What the model knows of an entry."""

    key: str
    value: int
    size_bytes: int
    expires_at_s: float | None


class CacheAgainstAList(RuleBasedStateMachine):
    """The model is a list, the least recently used first; slow, and plain to see."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.cache: ByteBoundedCache[str, int] = ByteBoundedCache(MAX_BYTES, monotonic_s=lambda: self.now_s)
        self.model: list[Kept] = []
        self.values = 0
        self.generations: list[int] = []

    def _drop(self, key: str) -> None:
        self.model = [kept for kept in self.model if kept.key != key]

    @rule(key=keys, size_bytes=st.integers(0, MAX_BYTES + 5), lives_s=st.none() | st.integers(0, 9))
    def put(self, key: str, size_bytes: int, lives_s: int | None) -> None:
        self.values += 1
        expires_at_s = None if lives_s is None else self.now_s + lives_s
        self.cache.put(
            key,
            self.values,
            size_bytes=size_bytes,
            generation=self.cache.generation,
            expires_at_s=expires_at_s,
        )
        self._drop(key)
        if size_bytes <= MAX_BYTES:
            while sum(kept.size_bytes for kept in self.model) + size_bytes > MAX_BYTES:
                del self.model[0]
            self.model.append(Kept(key, self.values, size_bytes, expires_at_s))

    @rule(key=keys)
    def get(self, key: str) -> None:
        found = next((kept for kept in self.model if kept.key == key), None)
        self._drop(key)
        if found is not None and (found.expires_at_s is None or self.now_s < found.expires_at_s):
            self.model.append(found)
            assert self.cache.get(key) == found.value
        else:
            assert self.cache.get(key) is None

    @rule()
    def begin_to_fill(self) -> None:
        self.generations.append(self.cache.generation)

    @rule(gone=st.lists(keys, max_size=3))
    def discard(self, gone: list[str]) -> None:
        self.cache.discard(*gone)
        for key in gone:
            self._drop(key)

    @rule(key=keys)
    def put_of_before_a_discard(self, key: str) -> None:
        for generation in self.generations:
            if generation != self.cache.generation:
                self.cache.put(key, -1, size_bytes=1, generation=generation)

    @rule(seconds=st.integers(1, 5))
    def time_passes(self, seconds: int) -> None:
        self.now_s += seconds

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert self.cache.held_bytes == sum(kept.size_bytes for kept in self.model) <= MAX_BYTES


TestCacheAgainstAList = CacheAgainstAList.TestCase


def test_many_threads_leave_the_accounts_in_order() -> None:
    cache: ByteBoundedCache[int, int] = ByteBoundedCache(MAX_BYTES, monotonic_s=lambda: 0.0)

    def work(seed: int) -> None:
        for number in range(3000):
            key = (number * 7 + seed) % 13
            cache.put(key, number, size_bytes=key * 3, generation=cache.generation)
            cache.get((key + seed) % 13)
            if number % 50 == 0:
                cache.discard(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [key for key in range(13) if cache.get(key) is not None]
    assert cache.held_bytes == sum(key * 3 for key in held) <= MAX_BYTES
