"""Checks one finished segment: its manifest, its indexes, and every batch and record of its log against them.

Which segments are checked, and how the rest of the partition is, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from crc32c import crc32c

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import (
    IndexNotFound,
    InvalidField,
    SegmentNotFound,
    StoredDataCorrupt,
    TiergateError,
)
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.records.producer_snapshot import ProducerSnapshot
from tiergate_client.records.time_index import TimeIndex
from tiergate_client.records.transaction_index import TransactionIndex
from tiergate_client.segment_files import IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_spark.pipelines.checks.batch_checks import ChecksumCheck, LeaderEpochCheck, MaxTimestampCheck
from tiergate_spark.pipelines.checks.finding import MANIFEST, Finding, Findings, Kind
from tiergate_spark.pipelines.checks.index_checks import OffsetIndexCheck, TimeIndexCheck
from tiergate_spark.pipelines.checks.log_check import LogCheck
from tiergate_spark.pipelines.checks.log_walk import LogWalk
from tiergate_spark.pipelines.checks.manifest_check import check_leader_epoch_index, check_manifest
from tiergate_spark.pipelines.checks.offset_check import OffsetCheck
from tiergate_spark.pipelines.checks.record_check import RecordCheck
from tiergate_spark.pipelines.checks.transaction_check import TransactionCheck

Index = TypeVar("Index")

_KINDS = {
    SegmentFile.OFFSET_INDEX: Kind.OFFSET_INDEX,
    SegmentFile.TIME_INDEX: Kind.TIME_INDEX,
    SegmentFile.TXN_INDEX: Kind.TRANSACTION_INDEX,
    SegmentFile.PRODUCER_SNAPSHOT: Kind.PRODUCER_SNAPSHOT,
    SegmentFile.LEADER_EPOCH: Kind.LEADER_EPOCH_INDEX,
}


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What was checked of a segment, and what was found. Markers of transactions count apart, as control records."""

    findings: tuple[Finding, ...]
    batch_count: int = 0
    record_count: int = 0
    control_record_count: int = 0
    checked_bytes: int = 0
    """Of the log and the indexes; less than there are where damage hides the rest."""
    is_gone: bool = False
    """It was deleted since it was listed."""


def check_segment(
    segment: RemoteLogSegmentMetadata,
    storage: RemoteStorage,
    *,
    is_finished: Callable[[RemoteLogSegmentMetadata], bool],
) -> SegmentReport:
    """Reads all that is stored of the segment, in bounded memory.

    `is_finished` asks the metadata again about a segment that is not stored. Raises what keeps the store from being
    read, such as Unavailable: that is no damage.
    """
    findings = Findings()
    try:
        manifest = storage.get_manifest(segment)
    except SegmentNotFound:
        if not is_finished(segment):
            return SegmentReport((), is_gone=True)
        findings.add(Kind.MANIFEST_MISSING, "nothing of the segment is stored", file=MANIFEST)
        return SegmentReport(findings.all())
    except StoredDataCorrupt as error:
        findings.add(Kind.STORED_DATA, f"the manifest can not be read: {error.message}", file=MANIFEST, position=0)
        return SegmentReport(findings.all())
    try:
        return _SegmentCheck(segment, storage, manifest, findings).run()
    except SegmentNotFound:
        if not is_finished(segment):
            return SegmentReport((), is_gone=True)
        findings.add(Kind.STORED_DATA, "a file of the segment is not stored any more", file=SegmentFile.LOG.value)
    except StoredDataCorrupt as error:  # also of the manifest, when it was damaged just now
        findings.add(Kind.STORED_DATA, error.message)
    return SegmentReport(findings.all())


class _SegmentCheck:
    def __init__(
        self,
        segment: RemoteLogSegmentMetadata,
        storage: RemoteStorage,
        manifest: SegmentManifest,
        findings: Findings,
    ) -> None:
        self._segment = segment
        self._storage = storage
        self._manifest = manifest
        self._findings = findings

    def run(self) -> SegmentReport:
        segment, findings = self._segment, self._findings
        check_manifest(segment, self._manifest, findings)
        contents = self._indexes()
        base_offset = segment.start_offset
        offsets = self._parsed(contents, SegmentFile.OFFSET_INDEX, partial(OffsetIndex.parse, base_offset=base_offset))
        times = self._parsed(contents, SegmentFile.TIME_INDEX, partial(TimeIndex.parse, base_offset=base_offset))
        epochs = self._parsed(contents, SegmentFile.LEADER_EPOCH, LeaderEpochs.from_checkpoint)
        if epochs is not None:
            check_leader_epoch_index(segment, epochs, findings)
        checksums = ChecksumCheck(self._manifest.log, RecordCheck(findings), findings)
        checks: list[LogCheck] = [
            checksums,
            OffsetCheck(segment, findings),
            LeaderEpochCheck(segment, findings),
            MaxTimestampCheck(segment, findings),
        ]
        if offsets is not None:
            checks.append(OffsetIndexCheck(offsets, findings))
        if times is not None:
            checks.append(TimeIndexCheck(times, end_offset=segment.end_offset, findings=findings))
        checks += self._transaction_checks(contents)
        walk = LogWalk(
            segment,
            self._storage,
            log_bytes=min(segment.segment_size_bytes, self._manifest.log.size_bytes),
            borders=offsets.positions if offsets is not None else (),
            checks=checks,
            findings=findings,
        )
        walk.run()
        return SegmentReport(
            findings.all(),
            batch_count=walk.batch_count,
            record_count=checksums.record_count,
            control_record_count=checksums.control_record_count,
            checked_bytes=walk.checked_bytes + sum(map(len, contents.values())),
        )

    def _indexes(self) -> dict[SegmentFile, bytes]:
        """Those that the manifest names and that can be read."""
        files = [file for file in self._manifest.files if file is not SegmentFile.LOG]
        answers = self._storage.fetch_indexes([IndexQuestion(self._segment, file) for file in files])
        contents: dict[SegmentFile, bytes] = {}
        for file, answer in zip(files, answers, strict=True):
            if isinstance(answer, StoredDataCorrupt | IndexNotFound):
                self._findings.add(Kind.STORED_DATA, answer.message, file=file.value, position=0)
            elif isinstance(answer, TiergateError):
                raise answer
            else:
                contents[file] = answer
                self._compare(file, answer)
        return contents

    def _compare(self, file: SegmentFile, content: bytes) -> None:
        expected = self._manifest.files[file]
        if (len(content), crc32c(content)) != (expected.size_bytes, expected.crc32c):
            self._findings.add(
                Kind.STORED_DATA, "the file does not match the size and checksum of the manifest", file=file.value
            )

    def _parsed(
        self, contents: dict[SegmentFile, bytes], file: SegmentFile, parse: Callable[[bytes], Index]
    ) -> Index | None:
        if file not in contents:
            return None
        try:
            return parse(contents[file])
        except (StoredDataCorrupt, InvalidField) as error:
            self._findings.add(_KINDS[file], error.message, file=file.value)
            return None

    def _transaction_checks(self, contents: dict[SegmentFile, bytes]) -> list[LogCheck]:
        """None where the index is there and can not be read: what it should say is then not known."""
        snapshot = self._parsed(contents, SegmentFile.PRODUCER_SNAPSHOT, ProducerSnapshot.parse)
        index: TransactionIndex | None = TransactionIndex(())
        if SegmentFile.TXN_INDEX in self._manifest.files:
            index = self._parsed(contents, SegmentFile.TXN_INDEX, TransactionIndex.parse)
        return [] if index is None else [TransactionCheck(self._segment, index, snapshot, self._findings)]
