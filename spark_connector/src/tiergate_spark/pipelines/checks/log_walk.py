"""Walks over the batches of a segment's log, also past damage: what can still be read behind it is checked, too.

Where batches begin behind damage is taken from the offset index. What is checked in the batches is not known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from tiergate_client.errors import StoredDataCorrupt
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.defects import BatchDefect, FoundDefect
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.finding import Findings, Kind, Severity
from tiergate_spark.pipelines.checks.log_check import LogCheck
from tiergate_spark.pipelines.checks.log_chunks import log_chunks

_LOG: Final = SegmentFile.LOG.value


class LogWalk:
    """One walk over one log, in bounded memory."""

    def __init__(
        self,
        segment: RemoteLogSegmentMetadata,
        storage: RemoteStorage,
        *,
        log_bytes: int,
        borders: Sequence[int],
        checks: Sequence[LogCheck],
        findings: Findings,
    ) -> None:
        """`borders` are positions at which batches begin, ascending, as the offset index knows them."""
        self._segment = segment
        self._storage = storage
        self._log_bytes = log_bytes
        self._borders = borders
        self._checks = checks
        self._findings = findings
        self._damaged_blocks: Sequence[int] | None = None
        self._next_offset = segment.start_offset
        self._reached = 0
        self._end_of_last = 0
        self.batch_count = 0
        self.checked_bytes = 0

    def run(self) -> None:
        position: int | None = 0
        while position is not None and position < self._log_bytes:
            self._reached = position
            stop = self._readable_until(position)
            try:
                self._read(position, stop)
                behind_block = (stop // BLOCK_BYTES + 1) * BLOCK_BYTES
                position = None if stop == self._log_bytes else self._border_behind(behind_block)
            except FoundDefect as found:
                position = self._border_behind_defect(found.defect)
            except StoredDataCorrupt as error:
                position = self._localised(error)
        for check in self._checks:
            check.finish(is_whole=self.checked_bytes == self._segment.segment_size_bytes)

    def _read(self, position: int, stop: int) -> None:
        if position >= stop:
            return
        is_end = stop == self._log_bytes
        for batches in log_chunks(self._segment, self._storage, position=position, stop=stop, is_end=is_end):
            follows = batches.base_position == self._end_of_last
            for check in self._checks:
                check.take(batches, follows=follows)
            self.batch_count += len(batches)
            self.checked_bytes += batches.end_position - batches.base_position
            self._reached = self._end_of_last = batches.end_position
            self._next_offset = batches[len(batches) - 1].last_offset + 1

    def _readable_until(self, position: int) -> int:
        """The next byte that is known to be damaged; at once where the position is in a damaged block."""
        blocks = self._damaged_blocks or ()
        following = bisect_left(blocks, position // BLOCK_BYTES * BLOCK_BYTES)
        return max(position, blocks[following]) if following < len(blocks) else self._log_bytes

    def _border_behind(self, position: int) -> int | None:
        number = bisect_left(self._borders, position)
        return self._borders[number] if number < len(self._borders) else None

    def _border_behind_defect(self, defect: BatchDefect) -> int | None:
        is_tail = self._next_offset > self._segment.end_offset
        following = self._border_behind(defect.position + 1)
        rest = "the log is checked on" if following is not None else "the rest of the log is not checked"
        self._findings.add(
            Kind.BATCH_UNREADABLE,
            f"the batch can not be read: {defect.reason}; "
            + ("all offsets of the segment stand before it" if is_tail else f"{rest} from {following or 'there'} on"),
            severity=Severity.WARNING if is_tail else Severity.DAMAGE,
            file=_LOG,
            position=defect.position,
            offset=self._next_offset,
        )
        return following

    def _localised(self, error: StoredDataCorrupt) -> int | None:
        """Has the store say which blocks are damaged; then what lies between them can be read."""
        if self._damaged_blocks is not None:
            self._findings.add(Kind.STORED_DATA, error.message, file=_LOG, position=self._reached)
            return None
        damages = [damage for progress in self._storage.verify_segment(self._segment) for damage in progress.damages]
        in_log = [damage for damage in damages if damage.file is SegmentFile.LOG]
        for damage in in_log:
            self._findings.add(
                Kind.STORED_DATA, f"the log {damage.fact} from this byte on", file=_LOG, position=damage.position
            )
        self._damaged_blocks = sorted({damage.position // BLOCK_BYTES * BLOCK_BYTES for damage in in_log})
        return self._reached
