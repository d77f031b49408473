"""Count, size and offset range of the finished segments of a partition, kept while segments come and go.

Which segments are finished is decided by the cache that tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiergate_client.values import SegmentState
from tiergate_server.metadata import packed_segment


class FinishedFigures:
    """Counters, and a range whose borders are looked up anew only after a segment at that border has left."""

    __slots__ = ("_end", "_start", "count", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self._start: int | None = None  # None: not known, or there are no segments
        self._end: int | None = None

    def copy(self) -> FinishedFigures:
        copied = FinishedFigures()
        copied.count = self.count
        copied.size_bytes = self.size_bytes
        copied._start = self._start
        copied._end = self._end
        return copied

    def add(self, start: int, end: int, size_bytes: int) -> None:
        if self.count == 0:
            self._start, self._end = start, end
        else:
            self._start = None if self._start is None else min(self._start, start)
            self._end = None if self._end is None else max(self._end, end)
        self.count += 1
        self.size_bytes += size_bytes

    def remove(self, start: int, end: int, size_bytes: int) -> None:
        if start == self._start:
            self._start = None
        if end == self._end:
            self._end = None
        self.count -= 1
        self.size_bytes -= size_bytes

    def offsets(self, by_start: Callable[[], Iterator[bytes]]) -> tuple[int | None, int | None]:
        """Lowest start and highest end. `by_start` gives all segments of the partition, ascending by start."""
        if self.count == 0:
            return None, None
        if self._start is None:  # the usual case, as retention deletes the oldest; one of the first is the next oldest
            self._start = next(start for start, _ in _finished(by_start()))
        if self._end is None:
            self._end = max(end for _, end in _finished(by_start()))
        return self._start, self._end


def _finished(segments: Iterator[bytes]) -> Iterator[tuple[int, int]]:
    return (
        packed_segment.offsets_of(packed)
        for packed in segments
        if packed_segment.state_of(packed) is SegmentState.COPY_FINISHED
    )
