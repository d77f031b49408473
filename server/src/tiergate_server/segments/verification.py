"""Reads all that is stored of a segment again, and compares it with the manifest.

What differs is a finding, and so is a file that is missing, too short or too long; the reading goes on behind it. A
store that cannot be read is an error, never a finding. Memory: one block. The manifest itself is the caller's to check.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from crc32c import crc32c

from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile, SegmentManifest
from tiergate_client.verification import Damage, VerificationProgress
from tiergate_server.segments.object_store import ObjectNotFound, ObjectReader

PROGRESS_BYTES = 64 * 1024 * 1024
PROGRESS_S = 1.0

MISSING = "is missing"
DIFFERENT = "does not match its checksum"

Opener = Callable[[SegmentFile, int], ObjectReader]
"""Opens a file at its beginning, to read so many bytes. Raises ObjectNotFound."""


class SegmentVerification:
    """One run over the files of a manifest. `monotonic_s` says when there is news again.

    `require_segment` is called before a finding is told. It raises SegmentNotFound when the segment was deleted: then
    what is missing is nobody's loss.
    """

    def __init__(
        self,
        manifest: SegmentManifest,
        open_file: Opener,
        *,
        require_segment: Callable[[], object],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._manifest = manifest
        self._open_file = open_file
        self._require_segment = require_segment
        self._monotonic_s = monotonic_s
        self._total_bytes = sum(file.size_bytes for file in manifest.files.values())
        self._done_bytes = 0
        self._damages: list[Damage] = []

    def run(self) -> Iterator[VerificationProgress]:
        """Progress at the beginning, every 64 MiB or second, and at the end."""
        yield VerificationProgress(0, self._total_bytes)
        told_bytes, told_at_s = 0, self._monotonic_s()
        for file in self._manifest.files:
            with closing(self._checked_bytes(file)) as checked:
                for size_bytes in checked:
                    self._done_bytes += size_bytes
                    is_news = self._done_bytes - told_bytes >= PROGRESS_BYTES
                    is_news = is_news or self._monotonic_s() - told_at_s >= PROGRESS_S
                    if is_news and self._done_bytes < self._total_bytes:
                        yield self._progress()
                        told_bytes, told_at_s = self._done_bytes, self._monotonic_s()
        if self._total_bytes or self._damages:
            yield self._progress()

    def _progress(self) -> VerificationProgress:
        found, self._damages = tuple(self._damages), []
        if found:
            self._require_segment()
        return VerificationProgress(self._done_bytes, self._total_bytes, found)

    def _checked_bytes(self, file: SegmentFile) -> Generator[int, None, None]:
        """Sizes of the runs that were read and compared, or need not be read any more."""
        size = self._manifest.files[file].size_bytes
        try:
            reader = self._open_file(file, size + 1)  # one more, to see whether the file ends there
        except ObjectNotFound:
            self._damages.append(Damage(file, 0, MISSING))
            yield size
            return
        with reader:
            position = checksum = 0
            while position < size:
                wanted = min(BLOCK_BYTES, size - position)
                block = reader.read(wanted)
                if len(block) < wanted:
                    end = position + len(block)
                    self._damages.append(Damage(file, end, f"ends there instead of at {size}"))
                    yield size - position
                    return
                checksum = self._compare(file, position, block, checksum)
                position += wanted
                yield wanted
            if reader.read(1):
                self._damages.append(Damage(file, size, "goes on behind its end"))
        if file is not SegmentFile.LOG and checksum != self._manifest.files[file].crc32c:
            self._damages.append(Damage(file, 0, DIFFERENT))

    def _compare(self, file: SegmentFile, position: int, block: bytes, checksum: int) -> int:
        """The checksum of the file up to here; the log's blocks have their own, and are compared at once."""
        if file is not SegmentFile.LOG:
            return crc32c(block, checksum)
        if crc32c(block) != self._manifest.log_block_crc32c[position // BLOCK_BYTES]:
            self._damages.append(Damage(file, position, DIFFERENT))
        return 0
