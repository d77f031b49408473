"""Where segments are, as the service said it last: for as long as that may be believed. It reads no segment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from tiergate_client._fork_safety import ForkSafe
from tiergate_client.ids import SegmentId
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata

_MOST_KEPT = 64
"""The checksums of a segment of 1 GiB take some 40 kB."""
_KEPT_S = 5.0
"""After a delete, caches serve a segment for 5 s at most."""
_LARGEST_MARGIN_S = 30.0


class Resolve(Protocol):
    """RemoteStorage.resolve_segment."""

    def __call__(self, metadata: RemoteLogSegmentMetadata, *, files: Collection[SegmentFile]) -> ResolvedSegment: ...


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the service said, and until when its URLs are asked for: a while before they expire."""

    segment: ResolvedSegment
    answered_at_s: float
    usable_until_s: float

    def tells(self, file: SegmentFile) -> bool:
        """Where this file is, or that there is none."""
        return file in self.segment.urls or file not in self.segment.manifest.files


class Resolutions(ForkSafe):
    """A bounded cache by segment id. Safe to use from many threads."""

    def __init__(self, resolve: Resolve, *, monotonic_s: Callable[[], float]) -> None:
        super().__init__()
        self._resolve = resolve
        self._monotonic_s = monotonic_s
        self._kept: OrderedDict[SegmentId, Resolution] = OrderedDict()

    def of(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> Resolution:
        """For a read of this file that begins. Raises what the service raises."""
        with self.lock:
            kept = self._kept.get(metadata.segment_id)
        if kept is not None and kept.tells(file) and self._is_recent(kept):
            return kept
        return self.renewed(metadata, file)

    def renewed(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> Resolution:
        """Asks the service, whatever is kept. Raises what it raises.

        Logs are read alone, in many parts; who reads an index will read others.
        """
        asked_at_s = self._monotonic_s()  # before the answer: the URLs were made after this
        self.forget(metadata.segment_id)
        segment = self._resolve(metadata, files=(file,) if file is SegmentFile.LOG else ())
        valid_s = segment.valid_ms / 1000
        usable_s = valid_s - min(valid_s / 4, _LARGEST_MARGIN_S)
        resolution = Resolution(segment, asked_at_s, asked_at_s + usable_s)
        with self.lock:
            self._kept[metadata.segment_id] = resolution
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return resolution

    def is_usable(self, resolution: Resolution) -> bool:
        return self._monotonic_s() < resolution.usable_until_s

    def _is_recent(self, resolution: Resolution) -> bool:
        return self.is_usable(resolution) and self._monotonic_s() < resolution.answered_at_s + _KEPT_S

    def forget(self, segment_id: SegmentId) -> None:
        with self.lock:
            self._kept.pop(segment_id, None)
