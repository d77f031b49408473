"""What uploads in flight may take of a plane, beyond their number: one topic leaves room for others, all fit in memory.

How fast they may be is the quota's business.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client.errors import LimitExceeded
from tiergate_client.segment_files import SegmentFile, SegmentManifest

_RETRY_AFTER_MS = 1000


class UploadShares:
    """Safe for threads. A topic may have three quarters of the `uploads`; indexes together `index_bytes`.

    A store may hold an index in memory until its upload is finished, and a client may take its time for that.
    """

    def __init__(self, *, uploads: int, index_bytes: int) -> None:
        self._uploads_of_topic = uploads - uploads // 4
        self._index_bytes = index_bytes
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._held_bytes = 0

    @contextmanager
    def taken_by(self, header: SegmentManifest) -> Iterator[None]:
        """Raises LimitExceeded when there is no room for it now."""
        topic = header.metadata.partition.topic
        needed = sum(it.size_bytes for file, it in header.files.items() if file is not SegmentFile.LOG)
        with self._lock:
            self._require_room(topic, needed)
            self._running[topic] += 1
            self._held_bytes += needed
        try:
            yield
        finally:
            with self._lock:
                self._held_bytes -= needed
                self._running[topic] -= 1
                if not self._running[topic]:
                    del self._running[topic]

    def _require_room(self, topic: str, needed_bytes: int) -> None:
        if self._running[topic] >= self._uploads_of_topic:
            raise LimitExceeded.of(
                "topic_uploads",
                self._uploads_of_topic,
                f"{topic} has {self._running[topic]} uploads in flight, as many as one topic may; try again later",
                retry_after_ms=_RETRY_AFTER_MS,
            )
        # One that is alone is let in, however large: each of its indexes is within a limit of its own.
        if self._held_bytes and self._held_bytes + needed_bytes > self._index_bytes:
            raise LimitExceeded.of(
                "upload_index_bytes",
                self._index_bytes,
                f"the indexes of all uploads in flight would exceed {self._index_bytes} bytes; try again later",
                retry_after_ms=_RETRY_AFTER_MS,
            )
