"""Checks that the offsets of a log ascend, stay within what the metadata says, and are all there.

Compaction takes records out of batches and whole batches out of the log, so that offsets are missing with good reason.
It can be told by what it leaves of other batches: holes inside them, empty ones, delete horizons. A log with gaps and
without any of these is told as a warning. It is no damage that readers notice, but a broker writes no such log.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiergate_client.batch_layout import HAS_DELETE_HORIZON
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.finding import Findings, Kind, Severity

_LOG: Final = SegmentFile.LOG.value


class OffsetCheck:
    def __init__(self, segment: RemoteLogSegmentMetadata, findings: Findings) -> None:
        self._segment = segment
        self._findings = findings
        self._next_offset = segment.start_offset
        self._is_compacted = False
        self._gap_count = 0
        self._gap_offsets = 0
        self._first_gap: tuple[int, int, int] | None = None

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:
        bases = batches.fields["base_offset"].astype(np.int64)
        lasts = batches.last_offsets
        expected = np.concatenate(
            ([self._next_offset if follows else max(bases[0], self._next_offset)], lasts[:-1] + 1)
        )
        for number in np.flatnonzero(bases < expected).tolist():
            self._tell_order(batches.position(number), int(bases[number]), int(expected[number]))
        for number in np.flatnonzero(lasts > self._segment.end_offset).tolist():
            self._findings.add(
                Kind.OFFSET_RANGE,
                f"the batch ends with offset {lasts[number]}, the metadata says {self._segment.end_offset}",
                file=_LOG,
                position=batches.position(number),
                offset=int(lasts[number]),
            )
        for number in np.flatnonzero(bases > expected).tolist():
            self._count_gap(batches.position(number), int(expected[number]), int(bases[number]))
        fields = batches.fields
        self._is_compacted |= bool(
            (
                (fields["record_count"] <= fields["last_offset_delta"]) | (fields["attributes"] & HAS_DELETE_HORIZON)
            ).any()
        )
        self._next_offset = int(lasts[-1]) + 1

    def finish(self, *, is_whole: bool) -> None:
        if not is_whole:
            return
        if self._next_offset <= self._segment.end_offset:
            self._count_gap(self._segment.segment_size_bytes, self._next_offset, self._segment.end_offset + 1)
        if self._first_gap is not None and not self._is_compacted:
            position, start, stop = self._first_gap
            self._findings.add(
                Kind.OFFSET_GAP,
                f"{self._gap_offsets} offsets are missing between batches, in {self._gap_count} places, the first from "
                f"{start} to {stop - 1}, and nothing else shows that the log was compacted",
                severity=Severity.WARNING,
                file=_LOG,
                position=position,
                offset=start,
            )

    def _tell_order(self, position: int, base: int, expected: int) -> None:
        is_first = expected == self._segment.start_offset
        self._findings.add(
            Kind.OFFSET_RANGE if is_first else Kind.OFFSET_ORDER,
            f"the batch begins with offset {base}, "
            + (f"the segment with {expected}" if is_first else f"but the one before it ends with {expected - 1}"),
            file=_LOG,
            position=position,
            offset=base,
        )

    def _count_gap(self, position: int, start: int, stop: int) -> None:
        self._first_gap = self._first_gap or (position, start, stop)
        self._gap_count += 1
        self._gap_offsets += stop - start
