"""What readers refuse in a batch whose checksum is right is damage to a verification; what brokers write is sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.checked_segments import COMMIT, checked, copied, data, end
from support.checked_tier import CheckedTier
from support.record_batches import MadeBatch, MadeRecord, compress, marker, with_right_checksum
from support.replicated_logs import CopiedSegment
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import Codec
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.split_reading import read_split
from tiergate_client.segment_files import SegmentFile
from tiergate_spark.pipelines.checks import log_chunks
from tiergate_spark.pipelines.checks.finding import Finding, Kind, Severity

LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40
OFFSETS_END_AT, CHECKSUMMED_FROM = 27, 21


def around(*batches: MadeBatch) -> tuple[MadeBatch, ...]:
    """Between two that are sound."""
    return (data(100, time_ms=1000), *batches, data(150, time_ms=3000))


def starts(batches: tuple[MadeBatch, ...]) -> list[int]:
    sizes = [len(batch.encode()) for batch in batches]
    return [sum(sizes[:number]) for number in range(len(sizes))]


def refusal(copy: CopiedSegment) -> CorruptBatch | None:
    """Of a reader who wants everything."""
    segment = copy.metadata
    whole = SegmentRange(segment, segment.start_offset, segment.end_offset + 1, 0, segment.segment_size_bytes)
    try:
        list(read_split(ReadSplit(segment.partition, (whole,)), CheckedTier([copy]).storage))
    except CorruptBatch as error:
        return error
    return None


WRONG = {
    "what is no zstd": data(103, time_ms=1030).but(attributes=Codec.ZSTD, body=b"garbage that is no zstd frame"),
    "what is no lz4": data(103, time_ms=1030).but(attributes=Codec.LZ4, body=b"garbage that is no lz4 frame"),
    "too few records": data(103, time_ms=1030, records=1).but(record_count=3, last_offset_delta=2),
    "too many records": data(103, time_ms=1030).but(record_count=2),
    "offsets that descend": MadeBatch((MadeRecord(1), MadeRecord(0)), base_offset=103, max_timestamp_ms=2**50),
    "cut record": data(103, time_ms=1030).but(body=data(103, time_ms=1030).encode()[61:-1]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_batch_whose_records_readers_refuse_is_damage_and_those_behind_it_are_checked(wrong: MadeBatch) -> None:
    late = data(140, time_ms=9000).but(max_timestamp_ms=1400)
    batches = around(wrong, late)
    copy = copied(batches)
    refused = refusal(copy)
    assert refused is not None
    unreadable, behind = (one for one in checked(copy).findings if one.kind is not Kind.OFFSET_GAP)
    _, position, behind_position, _ = starts(batches)
    assert (unreadable.kind, unreadable.severity) == (Kind.BATCH_UNREADABLE, Severity.DAMAGE)
    assert (unreadable.file, unreadable.position, unreadable.offset) == ("log", position, 103)
    assert str(unreadable.position) == refused.details["position"]
    assert unreadable.message.removeprefix("the batch ") in refused.message
    assert (behind.kind, behind.position) == (Kind.MAX_TIMESTAMP, behind_position)


def test_count_of_records_is_not_believed_before_they_are_seen() -> None:
    """Eight bytes for each of them would not be there."""
    boast = data(103, time_ms=1030, attributes=Codec.ZSTD).but(record_count=2**31 - 200, last_offset_delta=2**31 - 200)
    (finding,) = checked(copied((data(100, time_ms=1000), boast))).findings
    assert finding.kind is Kind.BATCH_UNREADABLE
    assert f"{2**31 - 200} records do not fit" in finding.message


@pytest.mark.parametrize("codec", Codec)
def test_batch_that_says_to_be_earlier_than_its_records_is_damage(codec: Codec) -> None:
    records = tuple(MadeRecord(number, timestamp_delta=number) for number in range(3))
    early = MadeBatch(
        records, base_offset=103, attributes=codec, base_timestamp_ms=2000, max_timestamp_ms=2001, last_offset_delta=46
    )
    (finding,) = checked(copied(around(early))).findings
    assert finding == Finding(
        Kind.MAX_TIMESTAMP,
        Severity.DAMAGE,
        "the batch has a record of 2002 ms, and says that none is later than 2001 ms",
        "log",
        starts(around(early))[1],
        103,
    )


def test_large_batch_that_says_to_be_earlier_than_its_records_is_told_once() -> None:
    """It is decoded in several parts, and more than one of them is later."""
    records = tuple(MadeRecord(number, timestamp_delta=number, value=bytes(4096)) for number in range(2000))
    early = MadeBatch(records, base_offset=100, base_timestamp_ms=0, max_timestamp_ms=10)
    (finding,) = checked(copied((early, data(2100, time_ms=20)))).findings
    assert (finding.kind, finding.position) == (Kind.MAX_TIMESTAMP, 0)
    assert "a record of 1999 ms" in finding.message


SOUND = {
    "log append time, and a producer whose clock is ahead": MadeBatch(
        (MadeRecord(0), MadeRecord(46, timestamp_delta=500)),
        base_offset=103,
        attributes=LOG_APPEND_TIME,
        base_timestamp_ms=8000,
        max_timestamp_ms=2000,
    ),
    "delete horizon in the base timestamp": MadeBatch(
        (MadeRecord(0, timestamp_delta=-7000, key=b"k"), MadeRecord(46, timestamp_delta=-6900, key=b"l")),
        base_offset=103,
        attributes=DELETE_HORIZON | Codec.LZ4,
        base_timestamp_ms=9000,
        max_timestamp_ms=2100,
    ),
    "holes of compaction at both ends": MadeBatch(
        (MadeRecord(5), MadeRecord(9)),
        base_offset=103,
        last_offset_delta=46,
        attributes=Codec.SNAPPY,
        base_timestamp_ms=2000,
        max_timestamp_ms=2000,
    ),
    "empty batch": MadeBatch(base_offset=103, last_offset_delta=46, base_timestamp_ms=-1, max_timestamp_ms=2000),
    "empty control batch": MadeBatch(
        base_offset=103, last_offset_delta=46, attributes=0x20, base_timestamp_ms=-1, max_timestamp_ms=2000
    ),
    "marker": end(COMMIT, 103, time_ms=2000, producer_id=5).but(last_offset_delta=46),
    "marker with a delete horizon": marker(COMMIT, base_offset=103, producer_id=5).but(
        last_offset_delta=46, attributes=0x30 | DELETE_HORIZON, base_timestamp_ms=9000, max_timestamp_ms=2000
    ),
    "no timestamps": MadeBatch(
        (MadeRecord(0), MadeRecord(46)), base_offset=103, base_timestamp_ms=-1, max_timestamp_ms=-1
    ),
}


@pytest.mark.parametrize("sound", SOUND.values(), ids=SOUND)
def test_what_brokers_write_is_sound(sound: MadeBatch) -> None:
    copy = copied(around(sound))
    assert refusal(copy) is None
    assert checked(copy).findings == ()


def test_whatever_readers_refuse_is_damage_of_the_same_batch() -> None:
    """Any byte of a batch is another one, and the checksum right all the same."""
    batches = around(*(data(103 + 3 * codec, time_ms=1000 + codec, attributes=codec) for codec in Codec))
    encoded = [batch.encode() for batch in batches]
    copy = copied(batches)
    refusals = 0
    for number, batch in enumerate(encoded):
        for at in range(CHECKSUMMED_FROM, len(batch)):
            changed = bytearray(batch)
            changed[at] ^= 1 << at % 8
            log = b"".join([*encoded[:number], with_right_checksum(changed), *encoded[number + 1 :]])
            broken = replace(copy, files={**copy.files, SegmentFile.LOG: log})
            refused = refusal(broken)
            if refused is None:
                continue
            refusals += 1
            damage = [one for one in checked(broken).findings if one.severity is Severity.DAMAGE]
            assert damage, (number, at)
            if at >= OFFSETS_END_AT:  # of two batches whose offsets contradict each other, either may be told
                assert refused.details["position"] in {str(one.position) for one in damage}, (number, at)
    assert refusals > 100


def test_log_in_which_no_batch_can_be_read_is_checked_to_its_end() -> None:
    body = compress(Codec.ZSTD, bytes(40))
    batches = tuple(
        data(100 + 3 * number, time_ms=number).but(attributes=Codec.ZSTD, body=body) for number in range(500)
    )
    report = checked(copied(batches))
    assert report.batch_count == 500
    assert report.findings[-1].message == "480 more of this kind are in this file"


def test_batch_that_is_larger_than_readers_take_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_chunks, "MOST_BATCH_BYTES", 3 * 1024 * 1024)
    large = MadeBatch((MadeRecord(0, value=bytes(4 * 1024 * 1024)),), base_offset=103, last_offset_delta=46)
    batches = around(large.but(base_timestamp_ms=0, max_timestamp_ms=0))
    report = checked(copied(batches))
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.position) == (
        Kind.BATCH_UNREADABLE,
        Severity.DAMAGE,
        starts(batches)[1],
    )
    assert f"it claims {len(batches[1].encode())} bytes, and at most 3145728 are read" in finding.message
    assert report.batch_count == 2
