"""Checks what is in the batches: that readers get every record, and find each by its time."""

from __future__ import annotations

from typing import Final

import numpy as np

from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.defects import FoundDefect
from tiergate_client.records.record_decoder import RecordDecoder
from tiergate_client.segment_files import SegmentFile
from tiergate_spark.pipelines.checks.finding import Findings, Kind

_LOG: Final = SegmentFile.LOG.value
_NO_TIME_YET: Final = np.iinfo(np.int64).min


class RecordCheck:
    """The records can be decoded, as readers do it, and none is later than the header of its batch says.

    A header that is too early is damage: who asks for later times passes its batch by. Control batches hold no records
    for readers, and empty ones none at all.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._decoder = RecordDecoder(("timestamp",), check_crc=False)

    def take(self, batches: ScannedBatches) -> None:
        """Batches whose bytes match their checksums; of others it is known already that they can not be read."""
        rest = batches.those(batches.fields["holds_records"] != 0)
        count = len(rest)
        while len(rest):
            try:
                self._decode(rest.part(0, count))
            except FoundDefect as found:
                number = int(np.searchsorted(rest.starts, found.defect.position - rest.base_position))
                self._tell(Kind.BATCH_UNREADABLE, f"the batch can not be read: {found.defect.reason}", rest, number)
                rest, count = rest.part(number + 1, len(rest)), 1
            else:
                # Few behind a defect, and then more: what is decoded in vain is never more than what was not.
                rest, count = rest.part(count, len(rest)), 2 * count

    def _decode(self, batches: ScannedBatches) -> None:
        """Raises FoundDefect, when the batches before the defect are checked."""
        ends = np.cumsum(batches.fields["record_count"], dtype=np.int64)
        latest = np.full(len(batches), _NO_TIME_YET)
        seen = 0
        try:
            for records in self._decoder.decode(batches):  # a large batch comes in several parts
                times = records["timestamp"].to_numpy()
                first, last = np.searchsorted(ends, (seen, seen + len(times) - 1), side="right").tolist()
                begins = np.append(seen, ends[first:last]) - seen
                met = slice(first, last + 1)
                latest[met] = np.maximum(latest[met], np.maximum.reduceat(times, begins))
                seen += len(times)
        finally:
            told = batches.fields["max_timestamp_ms"]
            for number in np.flatnonzero(latest > told).tolist():
                fact = (
                    f"the batch has a record of {latest[number]} ms, and says that none is later than {told[number]} ms"
                )
                self._tell(Kind.MAX_TIMESTAMP, fact, batches, number)

    def _tell(self, kind: Kind, fact: str, batches: ScannedBatches, number: int) -> None:
        self._findings.add(
            kind,
            fact,
            file=_LOG,
            position=batches.position(number),
            offset=int(batches.fields["base_offset"][number]),
        )
