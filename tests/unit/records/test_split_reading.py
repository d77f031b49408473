"""A split gives the records that were asked for, in little memory, and says where bytes are no batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.decoding_memory import watched_memory
from support.log_in_memory import LogsInMemory, log_metadata, whole_split
from support.record_batches import MadeBatch, MadeRecord, marker
from tiergate_client.errors import CorruptBatch, InvalidField, SegmentNotFound
from tiergate_client.interfaces import SegmentStream
from tiergate_client.records import AbortedTransaction, ControlType, ScannedBatches, batch_chunks, scan_batches
from tiergate_client.records.batch_chunks import MOST_BATCH_BYTES
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.split_reading import raw_batches, read_split
from tiergate_client.values import RemoteLogSegmentMetadata

PER_BATCH = 10
CHUNKS = (1, 500, 1 << 20)


def batch(base_offset: int, *, attributes: int = 0, producer_id: int = -1, value: bytes = b"v") -> bytes:
    records = tuple(MadeRecord(delta, value=value) for delta in range(PER_BATCH))
    return MadeBatch(records, base_offset=base_offset, attributes=attributes, producer_id=producer_id).encode()


BATCHES = [batch(base) for base in range(100, 200, PER_BATCH)]
LOG = b"".join(BATCHES)
METADATA = log_metadata(LOG, start_offset=100, end_offset=199)
BATCH_BYTES = len(BATCHES[0])


def offsets(split: ReadSplit, logs: LogsInMemory, *, chunk_bytes: int = 1 << 20) -> list[int]:
    read = read_split(split, logs.storage, columns=("offset",), chunk_bytes=chunk_bytes)
    return [offset for records in read for offset in records["offset"].to_pylist()]


def offsets_until_defect(
    split: ReadSplit, logs: LogsInMemory, *, chunk_bytes: int = 1 << 20
) -> tuple[list[int], CorruptBatch]:
    found: list[int] = []
    with pytest.raises(CorruptBatch) as refused:  # noqa: PT012 - what came before counts
        for records in read_split(split, logs.storage, columns=("offset",), chunk_bytes=chunk_bytes):
            found += records["offset"].to_pylist()
    assert not logs.held_streams
    return found, refused.value


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("piece_bytes", [1, 61, 4096])
def test_only_offsets_that_are_wanted_are_given(chunk_bytes: int, piece_bytes: int) -> None:
    logs = LogsInMemory({METADATA: LOG}, piece_bytes=piece_bytes)
    wanted = SegmentRange(METADATA, 115, 173, BATCH_BYTES, 8 * BATCH_BYTES)
    assert offsets(ReadSplit(METADATA.partition, (wanted,)), logs, chunk_bytes=chunk_bytes) == list(range(115, 173))
    assert logs.given_bytes == 7 * BATCH_BYTES
    assert not logs.held_streams


def test_columns_need_not_have_the_offset() -> None:
    wanted = SegmentRange(METADATA, 199, 200, 0, len(LOG))
    (records,) = read_split(
        ReadSplit(METADATA.partition, (wanted,)), LogsInMemory({METADATA: LOG}).storage, columns=("value",)
    )
    assert records.to_pydict() == {"value": [b"v"]}


def test_range_without_bytes_or_wanted_records_gives_nothing() -> None:
    empty = SegmentRange(METADATA, 100, 200, 40, 40)
    elsewhere = SegmentRange(METADATA, 180, 190, 0, 3 * BATCH_BYTES)
    assert offsets(ReadSplit(METADATA.partition, (empty, elsewhere)), LogsInMemory({METADATA: LOG})) == []


def test_column_that_does_not_exist_is_refused_before_anything_is_read() -> None:
    logs = LogsInMemory({METADATA: LOG})
    with pytest.raises(InvalidField, match="did you mean 'value'"):
        read_split(whole_split(METADATA), logs.storage, columns=("valu",))
    assert not logs.given_bytes


def test_stream_is_closed_when_the_reader_stops_early() -> None:
    logs = LogsInMemory({METADATA: LOG})
    reading = read_split(whole_split(METADATA), logs.storage, chunk_bytes=BATCH_BYTES)
    next(reading)
    assert logs.held_streams == 1
    reading.close()  # type: ignore[attr-defined] # it is a generator
    assert not logs.held_streams
    assert logs.given_bytes < len(LOG)


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_aborted_transaction_is_left_out_over_ranges_and_segments(chunk_bytes: int) -> None:
    first = batch(0, attributes=0x10, producer_id=7) + batch(10, attributes=0x10, producer_id=8)
    second = (
        batch(20, attributes=0x10, producer_id=7) + marker(ControlType.ABORT, base_offset=30, producer_id=7).encode()
    )
    second += batch(31, attributes=0x10, producer_id=7)
    one, two = log_metadata(first, start_offset=0, end_offset=19), log_metadata(second, start_offset=20, end_offset=40)
    aborted = AbortedTransaction(producer_id=7, first_offset=0, last_offset=30, last_stable_offset=31)
    ranges = whole_split(one).ranges + whole_split(two).ranges
    logs = LogsInMemory({one: first, two: second})
    split = ReadSplit(one.partition, ranges, (aborted,))
    assert offsets(split, logs, chunk_bytes=chunk_bytes) == [*range(10, 20), *range(31, 41)]
    assert len(offsets(replace(split, aborted=()), logs, chunk_bytes=chunk_bytes)) == 40


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("left", [1, 7, 20, 61, BATCH_BYTES - 1])
def test_cut_batch_behind_the_wanted_offsets_at_the_end_of_the_log_is_passed_over(left: int, chunk_bytes: int) -> None:
    log = LOG + batch(200)[:left]
    metadata = log_metadata(log, start_offset=100, end_offset=199)
    assert offsets(whole_split(metadata), LogsInMemory({metadata: log}), chunk_bytes=chunk_bytes) == [*range(100, 200)]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("left", [1, 20, 61, BATCH_BYTES - 1])
def test_cut_batch_with_wanted_offsets_is_corrupt_at_the_end_of_the_log(left: int, chunk_bytes: int) -> None:
    log = LOG[: 9 * BATCH_BYTES + left]
    metadata = log_metadata(log, start_offset=100, end_offset=199)
    found, error = offsets_until_defect(whole_split(metadata), LogsInMemory({metadata: log}), chunk_bytes=chunk_bytes)
    assert found == list(range(100, 190))
    assert error.details == {"segment": str(metadata.segment_id), "position": str(9 * BATCH_BYTES)}


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_cut_batch_at_an_inner_border_is_corrupt(chunk_bytes: int) -> None:
    wanted = SegmentRange(METADATA, 100, 120, 0, 2 * BATCH_BYTES + 30)
    found, error = offsets_until_defect(
        ReadSplit(METADATA.partition, (wanted,)), LogsInMemory({METADATA: LOG}), chunk_bytes=chunk_bytes
    )
    assert found == list(range(100, 120))
    assert error.details["position"] == str(2 * BATCH_BYTES)


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("rest", [b"\0" * 5, b"\0" * 16])
def test_rest_that_is_no_batch_does_not_discredit_the_last_one(rest: bytes, chunk_bytes: int) -> None:
    log = LOG + rest
    metadata = log_metadata(log, start_offset=100, end_offset=199)
    assert offsets(whole_split(metadata), LogsInMemory({metadata: log}), chunk_bytes=chunk_bytes) == [*range(100, 200)]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_zeros_behind_the_last_batch_are_corrupt_and_it_is_given(chunk_bytes: int) -> None:
    log = LOG + b"\0" * 50
    metadata = log_metadata(log, start_offset=100, end_offset=199)
    found, error = offsets_until_defect(whole_split(metadata), LogsInMemory({metadata: log}), chunk_bytes=chunk_bytes)
    assert found == list(range(100, 200))
    assert error.details["position"] == str(len(LOG))


def test_log_that_is_shorter_than_its_metadata_says_is_corrupt() -> None:
    found, error = offsets_until_defect(whole_split(METADATA), LogsInMemory({METADATA: LOG[: 5 * BATCH_BYTES]}))
    assert found == list(range(100, 150))
    assert error.details["position"] == str(5 * BATCH_BYTES)


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize(
    ("number", "base_offset", "given_until"),
    [(0, 99, 100), (4, 139, 130), (4, 100, 130), (4, 141, 140), (4, 180, 140), (9, 191, 190), (9, 10**15, 190)],
)
def test_offsets_that_can_not_be_are_corrupt_and_no_wrong_one_is_given(
    number: int, base_offset: int, given_until: int, chunk_bytes: int
) -> None:
    changed = bytearray(LOG)
    struct.pack_into(">q", changed, number * BATCH_BYTES, base_offset)
    found, error = offsets_until_defect(
        whole_split(METADATA), LogsInMemory({METADATA: bytes(changed)}), chunk_bytes=chunk_bytes
    )
    assert found == list(range(100, given_until))
    assert error.details["position"] == str((given_until - 100) // PER_BATCH * BATCH_BYTES)


def test_batch_larger_than_the_buffer_is_read() -> None:
    large = batch(10, value=b"x" * 50_000)
    log = batch(0) + large + batch(20)
    metadata = log_metadata(log, start_offset=0, end_offset=29)
    assert offsets(whole_split(metadata), LogsInMemory({metadata: log}), chunk_bytes=100) == list(range(30))


def test_length_that_lies_takes_no_memory_beyond_the_range() -> None:
    changed = bytearray(LOG)
    struct.pack_into(">i", changed, 3 * BATCH_BYTES + 8, 2**31 - 1)
    logs = LogsInMemory({METADATA: bytes(changed)})
    with watched_memory() as memory:
        found, error = offsets_until_defect(whole_split(METADATA), logs, chunk_bytes=300)
        assert memory.size_bytes < 1 << 20
    assert found == list(range(100, 130))
    assert error.details["position"] == str(3 * BATCH_BYTES)


@pytest.mark.parametrize("log_bytes", [1000, 10_000_000, 2**31 - 1])
@pytest.mark.parametrize("claimed", [100_000, 200_000_000, 500_000_000, 2**31 - 1])
def test_length_that_lies_takes_no_memory_beyond_the_bytes_that_come(claimed: int, log_bytes: int) -> None:
    changed = bytearray(LOG)
    struct.pack_into(">i", changed, 3 * BATCH_BYTES + 8, claimed)
    metadata = replace(METADATA, segment_size_bytes=max(log_bytes, len(LOG)))
    with watched_memory() as memory:
        found, error = offsets_until_defect(
            whole_split(metadata), LogsInMemory({metadata: bytes(changed)}), chunk_bytes=300
        )
        assert memory.size_bytes < 1 << 20
    assert found == list(range(100, 130))
    assert error.details["position"] == str(3 * BATCH_BYTES)


def test_large_batch_is_looked_at_a_few_times_while_it_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned: list[int] = []

    def counted(buffer: memoryview, **more: Any) -> ScannedBatches:
        scanned.append(len(buffer))
        return scan_batches(buffer, **more)

    monkeypatch.setattr(batch_chunks, "scan_batches", counted)
    log = MadeBatch((MadeRecord(0, value=bytes(1_000_000)),), base_offset=100).encode()
    metadata = log_metadata(log, start_offset=100, end_offset=100)
    assert offsets(whole_split(metadata), LogsInMemory({metadata: log}, piece_bytes=500), chunk_bytes=1000) == [100]
    assert len(scanned) < 20


def test_batch_that_claims_more_than_any_may_have_is_not_waited_for() -> None:
    changed = bytearray(LOG)
    struct.pack_into(">i", changed, 3 * BATCH_BYTES + 8, MOST_BATCH_BYTES)
    metadata = replace(METADATA, segment_size_bytes=2**31 - 1)
    logs = LogsInMemory({metadata: bytes(changed)}, piece_bytes=100)
    _, error = offsets_until_defect(whole_split(metadata), logs, chunk_bytes=300)
    assert f"at most {MOST_BATCH_BYTES} are read" in error.message
    assert logs.given_bytes < len(LOG)


def test_batch_with_a_wrong_checksum_is_in_the_way_of_its_own_offsets_only() -> None:
    changed = bytearray(LOG)
    changed[3 * BATCH_BYTES + 70] ^= 1
    logs = LogsInMemory({METADATA: bytes(changed)})

    def wanted(start: int, stop: int) -> ReadSplit:
        return ReadSplit(METADATA.partition, (SegmentRange(METADATA, start, stop, 0, len(LOG)),))

    assert offsets(wanted(140, 200), logs) == list(range(140, 200))
    assert offsets(wanted(100, 130), logs) == list(range(100, 130))
    for start, stop in ((139, 200), (100, 131)):
        found, error = offsets_until_defect(wanted(start, stop), logs)
        assert found == list(range(start, 130))
        assert error.details["position"] == str(3 * BATCH_BYTES)


class ShrinkingLogs(LogsInMemory):
    """Of one segment nothing can be fetched, or only so many bytes."""

    def __init__(self, logs: dict[RemoteLogSegmentMetadata, bytes], gone: RemoteLogSegmentMetadata, left: int) -> None:
        super().__init__(logs)
        self._gone = gone
        self._left = left

    def fetch_segment(self, metadata: RemoteLogSegmentMetadata, *, offset: int, length: int) -> SegmentStream:
        if metadata != self._gone:
            return super().fetch_segment(metadata, offset=offset, length=length)
        if not self._left:
            raise SegmentNotFound("it was deleted")
        self.held_streams += 1
        return SegmentStream(self._cut(self._logs[metadata.segment_id][: self._left]), self._let_go)

    def _cut(self, content: bytes) -> Iterator[memoryview]:
        yield from self._pieces(content)
        raise SegmentNotFound("it was deleted")


@pytest.mark.parametrize("left_batches", [0, 1, 4])
def test_segment_that_was_deleted_since_is_an_error_or_told_and_gone_over(left_batches: int) -> None:
    logs = [b"".join(batch(base + delta) for delta in range(0, 50, PER_BATCH)) for base in (0, 50, 100)]
    segments = [
        log_metadata(log, start_offset=50 * number, end_offset=50 * number + 49) for number, log in enumerate(logs)
    ]
    split = ReadSplit(METADATA.partition, tuple(whole_split(one).ranges[0] for one in segments))
    left = left_batches * len(batch(0))
    storage = ShrinkingLogs(dict(zip(segments, logs, strict=True)), segments[1], left)
    told: list[tuple[SegmentRange, str]] = []
    read = read_split(
        split,
        storage.storage,
        columns=("offset",),
        chunk_bytes=1,
        on_gone=lambda wanted, error: told.append((wanted, error.message)),
    )
    found = [offset for records in read for offset in records["offset"].to_pylist()]
    given = [offset for offset in found if 50 <= offset < 100]
    assert told == [(split.ranges[1], "it was deleted")]
    assert [offset for offset in found if offset not in given] == [*range(50), *range(100, 150)]
    # The batch at the end is not given: what follows it, which is to agree with it, did not come.
    assert given == list(range(50, 50 + max(left_batches - 1, 0) * PER_BATCH))
    assert not storage.held_streams
    with pytest.raises(SegmentNotFound):
        offsets(split, storage)
    assert not storage.held_streams


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_raw_batches_are_whole_and_only_those_with_wanted_offsets(chunk_bytes: int) -> None:
    logs = LogsInMemory({METADATA: LOG}, piece_bytes=77)
    wanted = SegmentRange(METADATA, 115, 171, 0, len(LOG))
    runs = list(raw_batches(ReadSplit(METADATA.partition, (wanted,)), logs.storage, chunk_bytes=chunk_bytes))
    assert b"".join(runs) == LOG[BATCH_BYTES : 8 * BATCH_BYTES]
    assert all(len(run) % BATCH_BYTES == 0 for run in runs)
    assert (len(runs) == 1) == (chunk_bytes > len(LOG))


def test_raw_batches_leave_checksums_to_the_reader() -> None:
    changed = bytearray(LOG)
    changed[3 * BATCH_BYTES + 70] ^= 1
    logs = LogsInMemory({METADATA: bytes(changed)})
    assert b"".join(raw_batches(whole_split(METADATA), logs.storage)) == changed


def test_raw_batches_end_with_the_batch_that_is_corrupt() -> None:
    changed = bytearray(LOG)
    changed[3 * BATCH_BYTES + 16] = 9
    given: list[bytes] = []
    with pytest.raises(CorruptBatch, match="format is 9") as refused:
        given.extend(raw_batches(whole_split(METADATA), LogsInMemory({METADATA: bytes(changed)}).storage))
    assert b"".join(given) == LOG[: 3 * BATCH_BYTES]
    assert refused.value.details["position"] == str(3 * BATCH_BYTES)
