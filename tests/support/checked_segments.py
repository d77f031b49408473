"""A small segment with everything in it, to be checked as it is or with a part of it replaced."""

from __future__ import annotations

from dataclasses import replace

from support.checked_tier import CheckedTier
from support.record_batches import MadeBatch, MadeRecord, marker, with_right_checksum
from support.replicated_logs import PARTITION, CopiedSegment
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import SegmentId
from tiergate_client.records import scan_batches
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.kafka_files.indexes import AbortedTransaction, encode_offset_entry, encode_time_entry
from tiergate_server.kafka_files.producer_snapshots import ProducerState, encode_snapshot
from tiergate_spark.pipelines.checks.segment_check import SegmentReport, check_segment

BASE = 100
EPOCH = 7  # that of made batches
ABORTED, COMMITTED, OPEN = 11, 12, 13
TRANSACTIONAL = 0x10
ABORT, COMMIT = 0, 1


def data(base_offset: int, *, time_ms: int, producer_id: int = -1, records: int = 3, attributes: int = 0) -> MadeBatch:
    return MadeBatch(
        tuple(MadeRecord(number, value=b"value-%d" % number) for number in range(records)),
        base_offset=base_offset,
        base_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        producer_id=producer_id,
        attributes=attributes | (TRANSACTIONAL if producer_id >= 0 else 0),
    )


def end(kind: int, base_offset: int, *, time_ms: int, producer_id: int) -> MadeBatch:
    made = marker(kind, base_offset=base_offset, producer_id=producer_id)
    return made.but(base_timestamp_ms=time_ms, max_timestamp_ms=time_ms)


SOUND = (
    data(100, time_ms=1000),
    data(103, time_ms=1030, producer_id=ABORTED),
    data(106, time_ms=1020, producer_id=COMMITTED),
    end(ABORT, 109, time_ms=1040, producer_id=ABORTED),
    end(COMMIT, 110, time_ms=1050, producer_id=COMMITTED),
    data(111, time_ms=1060),
    data(114, time_ms=1070, producer_id=OPEN),
)


def copied(batches: tuple[MadeBatch, ...] = SOUND) -> CopiedSegment:
    """As a broker would leave it, with an entry for each batch in both indexes."""
    log = b"".join(batch.encode() for batch in batches)
    offset_index = time_index = b""
    latest = -1
    headers = list(scan_batches(log))
    for header in headers:
        latest = max(latest, header.max_timestamp_ms)
        offset_index += encode_offset_entry(base_offset=BASE, offset=header.last_offset, position=header.position)
        time_index += encode_time_entry(base_offset=BASE, timestamp_ms=latest, offset=header.last_offset)
    end_offset = headers[-1].last_offset
    files = {
        SegmentFile.LOG: log,
        SegmentFile.OFFSET_INDEX: offset_index,
        SegmentFile.TIME_INDEX: time_index,
        SegmentFile.LEADER_EPOCH: LeaderEpochs.of({3: 0, EPOCH: 90}).to_checkpoint(),
    }
    if batches is SOUND:
        files[SegmentFile.TXN_INDEX] = AbortedTransaction(ABORTED, 103, 109, 106).encode()
        files[SegmentFile.PRODUCER_SNAPSHOT] = snapshot()
    metadata = RemoteLogSegmentMetadata(
        partition=PARTITION,
        segment_id=SegmentId(b"the segment's id"),
        start_offset=BASE,
        end_offset=end_offset,
        segment_leader_epochs=LeaderEpochs.of({EPOCH: BASE}),
        segment_size_bytes=len(log),
        max_timestamp_ms=latest,
        state=SegmentState.COPY_FINISHED,
        txn_index_empty=batches is not SOUND,
    )
    return CopiedSegment(metadata, files, (), (), 0)


def snapshot(*, aborted_first: int = -1, open_first: int = 114, open_last: int = 116) -> bytes:
    return encode_snapshot(
        [
            ProducerState(ABORTED, 0, 2, 105, 2, 1030, transaction_first_offset=aborted_first),
            ProducerState(COMMITTED, 0, 2, 108, 2, 1020),
            ProducerState(OPEN, 0, 2, open_last, 2, 1070, transaction_first_offset=open_first),
        ]
    )


def checked(copy: CopiedSegment, **metadata_changes: object) -> SegmentReport:
    """Of what is stored, with metadata that may say something else."""
    segment = replace(copy.metadata, **metadata_changes)  # type: ignore[arg-type] # the names are checked by dataclasses
    return check_segment(segment, CheckedTier([copy]).storage, is_finished=lambda _: True)


def with_file(file: SegmentFile, content: bytes | None) -> CopiedSegment:
    copy = copied()
    files = {**copy.files, file: content or b""}
    if content is None:
        del files[file]
    return replace(copy, files=files)


def position(number: int) -> int:
    return sum(len(batch.encode()) for batch in SOUND[:number])


def with_patch(number: int, at: int, content: bytes, *, mend: bool = False) -> CopiedSegment:
    """Some bytes of one batch are other ones; when it is mended, its checksum is right all the same."""
    batches = [bytearray(batch.encode()) for batch in SOUND]
    batches[number][at : at + len(content)] = content
    encoded = [with_right_checksum(batch) if mend else bytes(batch) for batch in batches]
    return with_file(SegmentFile.LOG, b"".join(encoded))
