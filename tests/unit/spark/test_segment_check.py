"""A stored segment is checked: a sound one has no findings, and damage of each kind is found, named and located."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.checked_segments import (
    ABORTED,
    BASE,
    COMMITTED,
    EPOCH,
    OPEN,
    checked,
    copied,
    data,
    position,
    snapshot,
    with_file,
    with_patch,
)
from support.checked_tier import CheckedTier
from support.record_batches import MadeBatch, MadeRecord
from support.replicated_logs import CopiedSegment, random_log
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import StorageUnavailable, StoredDataCorrupt
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_server.kafka_files.indexes import AbortedTransaction, encode_offset_entry, encode_time_entry
from tiergate_spark.pipelines.checks.finding import Finding, Kind, Severity
from tiergate_spark.pipelines.checks.segment_check import SegmentReport, check_segment


def only(report: SegmentReport) -> Finding:
    (finding,) = report.findings
    return finding


def test_sound_segment_has_no_findings_and_is_counted_whole() -> None:
    copy = copied()
    report = checked(copy)
    assert report.findings == ()
    assert (report.batch_count, report.record_count, report.control_record_count) == (7, 15, 2)
    assert report.checked_bytes == sum(map(len, copy.files.values()))


@given(seed=st.integers(0, 2**32))
def test_segments_that_leaders_copied_have_no_findings(seed: int) -> None:
    log = random_log(random.Random(seed), steps=50)
    storage = CheckedTier(log.copied).storage
    for copy in log.copied:
        report = check_segment(copy.metadata, storage, is_finished=lambda _: True)
        assert report.findings == ()
        assert report.batch_count == len(copy.batches)


def test_any_byte_of_the_log_that_is_another_one_is_damage() -> None:
    log = copied().files[SegmentFile.LOG]
    for at in range(len(log)):
        changed = bytearray(log)
        changed[at] ^= 1 << at % 8
        report = checked(with_file(SegmentFile.LOG, bytes(changed)))
        assert Severity.DAMAGE in {finding.severity for finding in report.findings}, at


@pytest.mark.parametrize("file", [SegmentFile.OFFSET_INDEX, SegmentFile.PRODUCER_SNAPSHOT, SegmentFile.LEADER_EPOCH])
def test_any_byte_of_an_index_that_is_another_one_is_damage(file: SegmentFile) -> None:
    content = copied().files[file]
    epochs_of_segment = content.index(b"7 90") if file is SegmentFile.LEADER_EPOCH else 0
    for at in range(epochs_of_segment, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        findings = checked(with_file(file, bytes(changed))).findings
        is_start_of_epoch = file is SegmentFile.LEADER_EPOCH and findings == () and int(changed.split()[-1]) <= BASE
        assert is_start_of_epoch or {finding.file for finding in findings} == {file.value}, at


def test_damaged_batch_is_named_by_position_and_offset_and_the_others_are_checked() -> None:
    report = checked(with_patch(2, 70, b"?"))
    assert only(report) == Finding(
        Kind.BATCH_CHECKSUM,
        Severity.DAMAGE,
        "the checksum of the batch does not match its bytes",
        "log",
        position(2),
        106,
    )
    assert report.batch_count == 7


def test_log_is_checked_on_behind_a_batch_that_can_not_be_read() -> None:
    broken = with_patch(1, 16, b"\x09")
    changed = bytearray(broken.files[SegmentFile.LOG])
    changed[position(5) + 70] ^= 1
    report = checked(replace(broken, files={**broken.files, SegmentFile.LOG: bytes(changed)}))
    unreadable, behind = report.findings
    assert (unreadable.kind, unreadable.position, unreadable.offset) == (Kind.BATCH_UNREADABLE, position(1), 103)
    assert f"checked on from {position(2)} on" in unreadable.message
    assert (behind.kind, behind.position) == (Kind.BATCH_CHECKSUM, position(5))
    assert report.batch_count == 6


def test_rest_of_the_log_is_told_to_be_unchecked_without_an_index_to_go_on_with() -> None:
    broken = with_patch(1, 16, b"\x09")
    report = checked(replace(broken, files={**broken.files, SegmentFile.OFFSET_INDEX: b""}))
    assert "the rest of the log is not checked" in only(report).message
    assert report.batch_count == 1


def test_cut_batch_behind_all_offsets_is_a_warning() -> None:
    log = copied().files[SegmentFile.LOG]
    grown = with_file(SegmentFile.LOG, log + data(117, time_ms=1080).encode()[:50])
    grown = replace(grown, metadata=replace(grown.metadata, segment_size_bytes=len(log) + 50))
    finding = only(checked(grown))
    assert (finding.kind, finding.severity) == (Kind.BATCH_UNREADABLE, Severity.WARNING)
    assert (finding.position, finding.offset) == (len(log), 117)


def test_batch_that_begins_before_the_last_one_ends_is_damage() -> None:
    finding = checked(with_patch(2, 0, struct.pack(">q", 105))).findings[0]
    assert (finding.kind, finding.position, finding.offset) == (Kind.OFFSET_ORDER, position(2), 105)
    assert "begins with offset 105, but the one before it ends with 105" in finding.message


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"start_offset": 101, "segment_leader_epochs": LeaderEpochs.of({EPOCH: 101})}, 0), ({"end_offset": 115}, 6)],
)
def test_offsets_outside_of_the_metadata_are_damage(changes: dict[str, object], place: int) -> None:
    found = [one for one in checked(copied(), **changes).findings if one.kind is Kind.OFFSET_RANGE]
    assert [one.position for one in found] == [position(place)]


@pytest.mark.parametrize("missing", [0, 2, 5])
def test_gap_between_batches_is_a_warning_without_signs_of_compaction(missing: int) -> None:
    batches = tuple(data(BASE + 3 * number, time_ms=number) for number in range(6) if number != missing)
    copy = copied(batches)
    copy = replace(copy, metadata=replace(copy.metadata, start_offset=BASE, end_offset=BASE + 17))
    finding = only(checked(copy))
    assert (finding.kind, finding.severity) == (Kind.OFFSET_GAP, Severity.WARNING)
    assert finding.offset == BASE + 3 * missing
    assert "3 offsets are missing between batches, in 1 places" in finding.message


@pytest.mark.parametrize(
    "left",
    [
        data(103, time_ms=1).but(last_offset_delta=5),
        data(103, time_ms=1, attributes=0x40),
        MadeBatch(base_offset=103, last_offset_delta=1, base_timestamp_ms=-1, max_timestamp_ms=1),
    ],
    ids=["hole in a batch", "delete horizon", "empty batch"],
)
def test_gaps_of_a_compacted_log_are_no_finding(left: MadeBatch) -> None:
    assert checked(copied((data(100, time_ms=0), left, data(120, time_ms=2)))).findings == ()


def test_batch_of_another_leader_epoch_is_damage() -> None:
    finding = only(checked(with_patch(4, 12, struct.pack(">i", 9))))
    assert (finding.kind, finding.position, finding.offset) == (Kind.LEADER_EPOCH, position(4), 110)


def test_batches_below_the_first_epoch_keep_older_ones() -> None:
    copy = with_patch(0, 12, struct.pack(">i", 3))
    epochs = LeaderEpochs.of({EPOCH: 104})
    files = {**copy.files, SegmentFile.LEADER_EPOCH: epochs.to_checkpoint()}
    copy = replace(copy, files=files, metadata=replace(copy.metadata, segment_leader_epochs=epochs))
    assert checked(copy).findings == ()


@pytest.mark.parametrize(("told_ms", "severity"), [(1069, Severity.DAMAGE), (1071, Severity.WARNING)])
def test_latest_timestamp_is_compared_with_the_metadata(told_ms: int, severity: Severity) -> None:
    copy = copied()
    finding = only(checked(replace(copy, metadata=replace(copy.metadata, max_timestamp_ms=told_ms))))
    assert (finding.kind, finding.severity, finding.position) == (Kind.MAX_TIMESTAMP, severity, position(6))


def entries_with(file: SegmentFile, number: int, content: bytes) -> CopiedSegment:
    entries = bytearray(copied().files[file])
    entries[number * len(content) : (number + 1) * len(content)] = content
    return with_file(file, bytes(entries))


@pytest.mark.parametrize(
    ("offset", "place", "fact"),
    [
        (108, position(2) + 1, "no batch begins at byte"),
        (107, position(2), "no batch ends with this offset"),
        (108, position(2) - 5, "no batch begins at byte"),
    ],
)
def test_offset_index_that_points_elsewhere_is_damage(offset: int, place: int, fact: str) -> None:
    wrong = encode_offset_entry(base_offset=BASE, offset=offset, position=place)
    finding = checked(entries_with(SegmentFile.OFFSET_INDEX, 2, wrong)).findings[0]
    assert (finding.kind, finding.file, finding.position) == (Kind.OFFSET_INDEX, "offset_index", 16)
    assert fact in finding.message


def test_offset_index_entry_of_several_batches_appended_together_is_sound() -> None:
    together = encode_offset_entry(base_offset=BASE, offset=109, position=position(1))
    assert checked(with_file(SegmentFile.OFFSET_INDEX, together)).findings == ()


def test_offset_index_entry_that_skips_its_batch_is_damage() -> None:
    late = encode_offset_entry(base_offset=BASE, offset=105, position=position(2))
    finding = only(checked(with_file(SegmentFile.OFFSET_INDEX, late)))
    assert f"begins at byte {position(1)}, but it points to {position(2)}" in finding.message


def test_offset_index_beyond_the_log_is_damage() -> None:
    wrong = encode_offset_entry(base_offset=BASE, offset=130, position=position(6))
    assert only(checked(with_file(SegmentFile.OFFSET_INDEX, wrong))).offset == 130


@pytest.mark.parametrize(("time_ms", "offset"), [(1029, 105), (1070, 117)])
def test_time_index_that_does_not_hold_is_damage(time_ms: int, offset: int) -> None:
    wrong = encode_time_entry(base_offset=BASE, timestamp_ms=time_ms, offset=offset)
    finding = only(checked(with_file(SegmentFile.TIME_INDEX, wrong)))
    assert (finding.kind, finding.file, finding.offset) == (Kind.TIME_INDEX, "time_index", offset)


@pytest.mark.parametrize("file", [SegmentFile.OFFSET_INDEX, SegmentFile.TIME_INDEX, SegmentFile.TXN_INDEX])
def test_index_that_is_cut_is_damage_of_its_own(file: SegmentFile) -> None:
    assert only(checked(with_file(file, copied().files[file][:-1]))).file == file.value


@pytest.mark.parametrize(
    ("entries", "fact"),
    [
        ([], "was aborted, and the index does not tell"),
        ([AbortedTransaction(99, 103, 109, 106)], "is told to be of producer 99"),
        ([AbortedTransaction(ABORTED, 104, 109, 106)], "has data at offset 103, but is told to begin with 104"),
        (
            [AbortedTransaction(ABORTED, 103, 109, 106), AbortedTransaction(COMMITTED, 106, 110, 111)],
            "its marker commits it",
        ),
        (
            [AbortedTransaction(ABORTED, 103, 109, 106), AbortedTransaction(OPEN, 114, 116, 117)],
            "has no marker here",
        ),
    ],
)
def test_transaction_index_is_compared_with_the_markers(entries: list[AbortedTransaction], fact: str) -> None:
    content = b"".join(entry.encode() for entry in entries) or None
    finding = only(checked(with_file(SegmentFile.TXN_INDEX, content)))
    assert (finding.kind, finding.file) == (Kind.TRANSACTION_INDEX, "txn_index")
    assert fact in finding.message


def test_index_that_the_metadata_has_readers_pass_by_is_damage() -> None:
    copy = copied()
    finding = only(checked(replace(copy, metadata=replace(copy.metadata, txn_index_empty=True))))
    assert "readers pass it by" in finding.message


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (snapshot(open_first=-1), "is open at the end of the segment, which is not told"),
        (snapshot(open_first=115), "is open at the end of the segment, which is not told"),
        (snapshot(aborted_first=103), f"of producer {ABORTED} is told to be open, and ended at offset 109"),
        (snapshot(open_last=117), f"producer {OPEN} is told to have written behind the segment"),
        (snapshot()[:-1], "checksum does not match"),
    ],
)
def test_producer_snapshot_is_compared_with_the_log(content: bytes, fact: str) -> None:
    finding = only(checked(with_file(SegmentFile.PRODUCER_SNAPSHOT, content)))
    assert (finding.kind, finding.file) == (Kind.PRODUCER_SNAPSHOT, "producer_snapshot")
    assert fact in finding.message


def test_open_transaction_whose_data_compaction_may_have_taken_is_sound() -> None:
    assert checked(with_file(SegmentFile.PRODUCER_SNAPSHOT, snapshot(aborted_first=112))).findings == ()


@pytest.mark.parametrize("text", [b"0\n1\n8 90\n", b"0\n1\n7 101\n8 110\n", b"", b"none", b"0\n1\n7 117\n"])
def test_leader_epoch_index_that_says_something_else_is_damage(text: bytes) -> None:
    finding = only(checked(with_file(SegmentFile.LEADER_EPOCH, text)))
    assert (finding.kind, finding.file) == (Kind.LEADER_EPOCH_INDEX, "leader_epoch")


@pytest.mark.parametrize(
    "changes",
    [
        {"start_offset": 99},
        {"end_offset": 200},
        {"segment_leader_epochs": LeaderEpochs.of({EPOCH: BASE, 9: 110})},
        {"max_timestamp_ms": 5},
        {"txn_index_empty": True},
        {"segment_id": SegmentId(b"another segment.")},
    ],
)
def test_manifest_that_says_something_else_than_the_metadata_is_damage(changes: dict[str, object]) -> None:
    copy = copied()
    tier = CheckedTier([copy])
    tier.manifest_changes = changes
    finding = only(check_segment(copy.metadata, tier.storage, is_finished=lambda _: True))
    assert (finding.kind, finding.file) == (Kind.MANIFEST_DIFFERS, "manifest")


def test_log_of_another_size_than_the_metadata_says_is_damage() -> None:
    whole = copied().files[SegmentFile.LOG]
    kinds = [one.kind for one in checked(with_file(SegmentFile.LOG, whole[: position(6)])).findings]
    assert kinds == [Kind.MANIFEST_DIFFERS]


@pytest.mark.parametrize("is_finished", [True, False])
def test_segment_that_is_not_stored_is_damage_unless_it_was_deleted(is_finished: bool) -> None:
    copy = copied()
    tier = CheckedTier([copy])
    tier.files.clear()
    report = check_segment(copy.metadata, tier.storage, is_finished=lambda _: is_finished)
    assert report.is_gone is not is_finished
    assert [one.kind for one in report.findings] == [Kind.MANIFEST_MISSING] * is_finished


def test_index_that_does_not_match_its_stored_checksum_is_named_and_the_rest_is_checked() -> None:
    copy = copied()
    tier = CheckedTier([copy])
    tier.failing[copy.metadata.segment_id, SegmentFile.TIME_INDEX] = StoredDataCorrupt("the time index is damaged")
    report = check_segment(copy.metadata, tier.storage, is_finished=lambda _: True)
    finding = only(report)
    assert (finding.kind, finding.file, finding.message) == (
        Kind.STORED_DATA,
        "time_index",
        "the time index is damaged",
    )
    assert report.batch_count == 7


@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.OFFSET_INDEX])
def test_store_out_of_reach_is_no_damage(file: SegmentFile) -> None:
    copy = copied()
    tier = CheckedTier([copy])
    tier.failing[copy.metadata.segment_id, file] = StorageUnavailable("the store does not answer; try again")
    with pytest.raises(StorageUnavailable):
        check_segment(copy.metadata, tier.storage, is_finished=lambda _: True)


class LargeLog:
    """A log of five blocks. Each batch has some hundred kilobytes, and lies in two blocks at most."""

    def __init__(self) -> None:
        batches = [
            MadeBatch(
                (MadeRecord(0, value=bytes(300_000)),),
                base_offset=BASE + number,
                base_timestamp_ms=number,
                max_timestamp_ms=number,
            )
            for number in range(17)
        ]
        self.copy = copied(tuple(batches))
        self.sizes = [len(batch.encode()) for batch in batches]
        self.starts = [sum(self.sizes[:number]) for number in range(17)]

    def checked(self, *, changed: int, at: int, rotten: set[int]) -> SegmentReport:
        """With another byte in one batch, and blocks that do not match what was copied."""
        log = bytearray(self.copy.files[SegmentFile.LOG])
        log[self.starts[changed] + at] ^= 1
        copy = replace(self.copy, files={**self.copy.files, SegmentFile.LOG: bytes(log)})
        tier = CheckedTier([copy])
        tier.rotten_blocks = frozenset(rotten)
        return check_segment(copy.metadata, tier.storage, is_finished=lambda _: True)

    def readable(self, rotten: set[int]) -> list[int]:
        ends = [start + size - 1 for start, size in zip(self.starts, self.sizes, strict=True)]
        blocks = [{start // BLOCK_BYTES, end // BLOCK_BYTES} for start, end in zip(self.starts, ends, strict=True)]
        return [number for number in range(17) if not blocks[number] & rotten]


def test_batches_between_damaged_blocks_are_checked() -> None:
    large = LargeLog()
    report = large.checked(changed=16, at=100, rotten={1, 3})
    assert [(one.kind, one.position) for one in report.findings] == [
        (Kind.STORED_DATA, BLOCK_BYTES),
        (Kind.STORED_DATA, 3 * BLOCK_BYTES),
        (Kind.BATCH_CHECKSUM, large.starts[16]),
    ]
    assert report.batch_count == len(large.readable({1, 3}))


def test_batch_that_can_not_be_read_before_a_damaged_block_is_told_too() -> None:
    large = LargeLog()
    report = large.checked(changed=2, at=16, rotten={3})
    assert [(one.kind, one.position) for one in report.findings] == [
        (Kind.BATCH_UNREADABLE, large.starts[2]),
        (Kind.STORED_DATA, 3 * BLOCK_BYTES),
    ]
    assert report.batch_count == len(large.readable({3})) - 1


def test_log_that_is_wrong_all_over_is_told_in_few_lines() -> None:
    batches = tuple(data(BASE + 3 * number, time_ms=number) for number in range(100))
    copy = copied(batches)
    metadata = replace(copy.metadata, segment_leader_epochs=LeaderEpochs.of({8: BASE}))
    files = {**copy.files, SegmentFile.LEADER_EPOCH: LeaderEpochs.of({8: 0}).to_checkpoint()}
    findings = checked(replace(copy, metadata=metadata, files=files)).findings
    assert len(findings) == 21
    assert findings[-1].message == "80 more of this kind are in this file"
