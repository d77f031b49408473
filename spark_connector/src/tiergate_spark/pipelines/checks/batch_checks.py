"""Checks of the batches themselves: their checksums, their leader epochs, and how late they are."""

from __future__ import annotations

from typing import Final

import numpy as np
from crc32c import crc32c

from tiergate_client.batch_layout import CONTROL
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.time_index import NO_TIMESTAMP_MS
from tiergate_client.segment_files import FileChecksum, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.finding import MANIFEST, Findings, Kind, Severity
from tiergate_spark.pipelines.checks.record_check import RecordCheck

_LOG: Final = SegmentFile.LOG.value
# What batches have that were written before brokers knew of leader epochs.
_NO_EPOCH: Final = -1


class ChecksumCheck:
    """Every batch against its own checksum, and the log as a whole against the manifest.

    The records of those that match are checked, too.
    """

    def __init__(self, expected: FileChecksum, records: RecordCheck, findings: Findings) -> None:
        self._expected = expected
        self._records = records
        self._findings = findings
        self._whole = 0
        self.record_count = 0
        self.control_record_count = 0

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:  # noqa: ARG002 - as LogCheck
        size = batches.end_position - batches.base_position
        self._whole = crc32c(batches.buffer[:size], self._whole)
        counts = batches.fields["record_count"]
        controls = int(counts[batches.fields["attributes"] & CONTROL != 0].sum(dtype=np.int64))
        self.record_count += int(counts.sum(dtype=np.int64)) - controls
        self.control_record_count += controls
        wrong = batches.wrong_checksums()
        for number in wrong:
            self._findings.add(
                Kind.BATCH_CHECKSUM,
                "the checksum of the batch does not match its bytes",
                file=_LOG,
                position=batches.position(number),
                offset=int(batches.fields["base_offset"][number]),
            )
        is_right = np.ones(len(batches), np.bool_)
        is_right[wrong] = False
        self._records.take(batches.those(is_right))

    def finish(self, *, is_whole: bool) -> None:
        if is_whole and self._whole != self._expected.crc32c:
            self._findings.add(
                Kind.MANIFEST_DIFFERS,
                f"the log has the checksum {self._whole:08x}, the manifest says {self._expected.crc32c:08x}",
                file=MANIFEST,
            )


class LeaderEpochCheck:
    """Every batch was written in the epoch that the metadata says of its offset.

    Below the first epoch of the metadata, where records were deleted from the log's front before it was copied, batches
    keep older epochs.
    """

    def __init__(self, segment: RemoteLogSegmentMetadata, findings: Findings) -> None:
        self._findings = findings
        self._epochs = np.array([epoch for epoch, _ in segment.segment_leader_epochs], np.int64)
        self._starts = np.array([start for _, start in segment.segment_leader_epochs], np.int64)

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:  # noqa: ARG002 - as LogCheck
        found = batches.fields["leader_epoch"].astype(np.int64)
        places = np.searchsorted(self._starts, batches.fields["base_offset"], side="right") - 1
        expected = self._epochs[np.maximum(places, 0)]
        is_wrong = np.where(places < 0, found > expected, found != expected) & (found != _NO_EPOCH)
        for number in np.flatnonzero(is_wrong).tolist():
            self._findings.add(
                Kind.LEADER_EPOCH,
                f"the batch is of leader epoch {found[number]}, the metadata says {expected[number]}",
                file=_LOG,
                position=batches.position(number),
                offset=int(batches.fields["base_offset"][number]),
            )

    def finish(self, *, is_whole: bool) -> None:
        pass


class MaxTimestampCheck:
    """No batch is later than the metadata says, and one is as late.

    A time that is too early is damage: readers of later times pass the segment by.
    """

    def __init__(self, segment: RemoteLogSegmentMetadata, findings: Findings) -> None:
        self._expected_ms = segment.max_timestamp_ms
        self._findings = findings
        self._latest_ms = NO_TIMESTAMP_MS
        self._latest_position = 0

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:  # noqa: ARG002 - as LogCheck
        times = batches.fields["max_timestamp_ms"]
        number = int(times.argmax())
        if int(times[number]) > self._latest_ms:
            self._latest_ms, self._latest_position = int(times[number]), batches.position(number)

    def finish(self, *, is_whole: bool) -> None:
        expected, latest = self._expected_ms, self._latest_ms
        if expected in (NO_TIMESTAMP_MS, latest) or (latest < expected and not is_whole):
            return
        self._findings.add(
            Kind.MAX_TIMESTAMP,
            f"the latest batch is of {latest} ms, the metadata says {expected} ms",
            severity=Severity.DAMAGE if latest > expected else Severity.WARNING,
            file=_LOG,
            position=self._latest_position,
        )
