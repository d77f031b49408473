"""Manifests and indexes that were read from a store, kept in memory for the next reader.

- A manifest is served for 5 s after the question that brought it was sent to the store. So a segment that another
  replica deletes is served here for at most 5 s more, whenever the answer came. That there is none is never kept.
- An index is kept under its upload digest, under which it never changes, and was verified when it was read. Whoever
  asks for one has its manifest, so it is served exactly as long as that is.
- A deletion by this replica forgets both at once, also what is just being read.

Decisions about what is committed never ask here. Logs are not kept: the stores and their kernels do that better.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from tiergate_client.errors import SegmentNotFound
from tiergate_client.segment_files import SegmentManifest
from tiergate_server.segments.byte_bounded_cache import ByteBoundedCache
from tiergate_server.segments.keys import SegmentKeys

Kind = Literal["manifest", "index"]

MANIFEST_VALID_S = 5.0

# One index shall not push out everything else, and those that are on their way in are held beside the cache.
_LARGEST_SHARE = 8
_FILLING_SHARE = 4

# As measured (tracemalloc, CPython 3.11): 1.5 kB, 36 bytes for each block and 97 for each epoch.
_MANIFEST_BYTES = 2048
_BLOCK_BYTES = 40
_EPOCH_BYTES = 100
_INDEX_OVERHEAD_BYTES = 512


class CacheObserver(Protocol):
    """Told how the cache does, from any thread."""

    def looked_up(self, kind: Kind, *, is_hit: bool) -> None: ...
    def holds(self, size_bytes: int) -> None: ...


class _NobodyLooks:
    def looked_up(self, kind: Kind, *, is_hit: bool) -> None: ...
    def holds(self, size_bytes: int) -> None: ...


class SegmentCache:
    """Holds at most `max_bytes`, and for the moment of reading a quarter more; 0 turns it off."""

    def __init__(
        self,
        max_bytes: int,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        observer: CacheObserver | None = None,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._observer = observer or _NobodyLooks()
        self._values: ByteBoundedCache[str, SegmentManifest | bytes] = ByteBoundedCache(
            max_bytes, monotonic_s=monotonic_s
        )
        self._filling_bytes = 0
        self._lock = threading.Lock()

    def manifest(self, keys: SegmentKeys, read: Callable[[], SegmentManifest]) -> SegmentManifest:
        """The manifest as it was in the last 5 s. Raises what `read` raises."""
        cached = self._values.get(keys.manifest)
        self._observer.looked_up("manifest", is_hit=cached is not None)
        return cached if isinstance(cached, SegmentManifest) else self.fresh_manifest(keys, read)

    def fresh_manifest(self, keys: SegmentKeys, read: Callable[[], SegmentManifest]) -> SegmentManifest:
        """The manifest as it is now, to replace what is kept. Raises what `read` raises."""
        generation, asked_at_s = self._values.generation, self._monotonic_s()
        try:
            manifest = read()
        except SegmentNotFound:
            self.forget(keys)
            raise
        expires_at_s = asked_at_s + MANIFEST_VALID_S
        self._values.put(
            keys.manifest, manifest, size_bytes=_held_by(manifest), generation=generation, expires_at_s=expires_at_s
        )
        self._observer.holds(self._values.held_bytes)
        return manifest

    def index(self, key: str, *, size_bytes: int, read: Callable[[], bytes]) -> bytes | None:
        """A whole index of this size, kept or read; None when it is too large to be kept. Raises what `read` raises."""
        held_bytes = size_bytes + _INDEX_OVERHEAD_BYTES
        if held_bytes > self._values.max_bytes // _LARGEST_SHARE:
            return None
        cached = self._values.get(key)
        self._observer.looked_up("index", is_hit=cached is not None)
        if isinstance(cached, bytes):
            return cached
        with self._room_to_fill(held_bytes) as is_room:
            if not is_room:
                return None
            generation = self._values.generation
            data = read()
            self._values.put(key, data, size_bytes=held_bytes, generation=generation)
        self._observer.holds(self._values.held_bytes)
        return data

    def forget(self, keys: SegmentKeys) -> None:
        """The segment is gone, or about to go."""
        gone = [keys.manifest]
        cached = self._values.get(keys.manifest)
        if isinstance(cached, SegmentManifest):
            gone += [keys.file(cached.upload_digest, file) for file in cached.files]
        self._values.discard(*gone)
        self._observer.holds(self._values.held_bytes)

    @contextmanager
    def _room_to_fill(self, size_bytes: int) -> Iterator[bool]:
        """Whether so much more may be read into memory: a crowd that asks for large indexes must not add up."""
        with self._lock:
            is_room = self._filling_bytes + size_bytes <= self._values.max_bytes // _FILLING_SHARE
            self._filling_bytes += size_bytes if is_room else 0
        try:
            yield is_room
        finally:
            with self._lock:
                self._filling_bytes -= size_bytes if is_room else 0


def _held_by(manifest: SegmentManifest) -> int:
    epochs = manifest.metadata.segment_leader_epochs.entries
    return _MANIFEST_BYTES + _BLOCK_BYTES * len(manifest.log_block_crc32c) + _EPOCH_BYTES * len(epochs)
