"""Checks that the sparse indexes of a segment agree with its batches: what readers conclude from them must hold."""

from __future__ import annotations

from typing import Final

import numpy as np

from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.time_index import TimeIndex
from tiergate_client.segment_files import SegmentFile
from tiergate_spark.pipelines.checks.finding import Findings, Kind

_OFFSET_INDEX: Final = SegmentFile.OFFSET_INDEX.value
_TIME_INDEX: Final = SegmentFile.TIME_INDEX.value
_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12


class OffsetIndexCheck:
    """An entry (o, p): a batch begins at p, and o ends a batch that begins there or before the next entry's p."""

    def __init__(self, index: OffsetIndex, findings: Findings) -> None:
        self._offsets = np.array(index.offsets, np.int64)
        self._positions = np.array(index.positions, np.int64)
        self._nexts = np.append(self._positions[1:], np.iinfo(np.int64).max)[: len(self._positions)]
        self._findings = findings
        self._seen_positions = 0
        self._seen_offsets = 0

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:
        lasts = batches.last_offsets
        if not follows:
            self._seen_positions = int(np.searchsorted(self._positions, batches.base_position))
            self._seen_offsets = int(np.searchsorted(self._offsets, batches.fields["base_offset"][0]))
        end_of_positions = int(np.searchsorted(self._positions, batches.end_position))
        end_of_offsets = int(np.searchsorted(self._offsets, lasts[-1], side="right"))
        starts = batches.starts + batches.base_position
        if (np.diff(lasts) > 0).all():  # else the batches themselves are wrong, which is told
            self._check_positions(slice(self._seen_positions, end_of_positions), starts)
            self._check_offsets(slice(self._seen_offsets, end_of_offsets), starts, lasts)
        self._seen_positions = max(self._seen_positions, end_of_positions)
        self._seen_offsets = max(self._seen_offsets, end_of_offsets)

    def finish(self, *, is_whole: bool) -> None:
        if is_whole:
            for entry in range(self._seen_offsets, len(self._offsets)):
                self._tell(entry, "no batch ends with this offset")

    def _check_positions(self, entries: slice, starts: np.ndarray) -> None:
        positions = self._positions[entries]
        found = starts[np.minimum(np.searchsorted(starts, positions), len(starts) - 1)]
        for entry in np.flatnonzero(found != positions).tolist():
            self._tell(entries.start + entry, f"no batch begins at byte {positions[entry]}, to which it points")

    def _check_offsets(self, entries: slice, starts: np.ndarray, lasts: np.ndarray) -> None:
        offsets = self._offsets[entries]
        places = np.minimum(np.searchsorted(lasts, offsets), len(lasts) - 1)
        for entry in np.flatnonzero(lasts[places] != offsets).tolist():
            self._tell(entries.start + entry, "no batch ends with this offset")
        begins = starts[places]
        is_elsewhere = (begins < self._positions[entries]) | (begins >= self._nexts[entries])
        for entry in np.flatnonzero(is_elsewhere & (lasts[places] == offsets)).tolist():
            self._tell(
                entries.start + entry,
                f"the batch with this offset begins at byte {begins[entry]}, but it points to "
                f"{self._positions[entries][entry]}",
            )

    def _tell(self, entry: int, fact: str) -> None:
        self._findings.add(
            Kind.OFFSET_INDEX,
            f"entry {entry} of the offset index is wrong: {fact}",
            file=_OFFSET_INDEX,
            position=entry * _OFFSET_ENTRY_BYTES,
            offset=int(self._offsets[entry]),
        )


class TimeIndexCheck:
    """An entry (t, o): no batch that ends with o or before is later than t."""

    def __init__(self, index: TimeIndex, *, end_offset: int, findings: Findings) -> None:
        self._times = np.array(index.timestamps_ms, np.int64)
        self._offsets = np.array(index.offsets, np.int64)
        self._end_offset = end_offset
        self._findings = findings
        self._latest_ms = int(np.iinfo(np.int64).min)
        self._seen = 0

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:  # noqa: ARG002 - what could be read must hold
        lasts = batches.last_offsets
        end = int(np.searchsorted(self._offsets, lasts[-1], side="right"))
        latest = np.maximum.accumulate(
            np.concatenate(([self._latest_ms], batches.fields["max_timestamp_ms"].astype(np.int64)))
        )
        if end > self._seen and (np.diff(lasts) > 0).all():
            up_to = np.searchsorted(lasts, self._offsets[self._seen : end], side="right")
            for number in np.flatnonzero(latest[up_to] > self._times[self._seen : end]).tolist():
                entry = self._seen + number
                self._tell(
                    entry,
                    f"it says that nothing up to here is later than {self._times[entry]} ms, but a batch is of "
                    f"{latest[up_to[number]]} ms",
                )
        self._seen = max(self._seen, end)
        self._latest_ms = int(latest[-1])

    def finish(self, *, is_whole: bool) -> None:
        for entry in range(self._seen, len(self._offsets)):
            if int(self._offsets[entry]) > self._end_offset:
                self._tell(entry, f"the segment ends with offset {self._end_offset}")
            elif is_whole and self._latest_ms > int(self._times[entry]):
                self._tell(entry, f"a batch before it is of {self._latest_ms} ms, it says {self._times[entry]} ms")

    def _tell(self, entry: int, fact: str) -> None:
        self._findings.add(
            Kind.TIME_INDEX,
            f"entry {entry} of the time index is wrong: {fact}",
            file=_TIME_INDEX,
            position=entry * _TIME_ENTRY_BYTES,
            offset=int(self._offsets[entry]),
        )
