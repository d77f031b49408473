"""What a profile is added up from: each record once, with its share of the batch, whatever the codec."""

from __future__ import annotations

import gzip
import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from support.record_batches import MadeBatch, MadeRecord, marker
from support.replicated_logs import PARTITION, CopiedSegment
from support.segments import make_metadata
from support.tier_in_memory import TierInMemory
from tiergate_client.errors import CorruptBatch, SegmentNotFound
from tiergate_client.records import AbortedTransaction, Codec
from tiergate_client.records.defects import WRONG_CHECKSUM
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.split_reading import read_split
from tiergate_client.segment_files import SegmentFile
from tiergate_spark.pipelines.hours import END_OF_CALENDAR_MS, HOUR_MS
from tiergate_spark.pipelines.profile_rows import profile_rows

FIRST_MS = 1_700_002_800_000
TRANSACTIONAL = 0x10


def made_batches(count: int = 25, *, seed: int = 1) -> list[MadeBatch]:
    """Of every codec, some over the border of two hours, with null and empty keys and values."""
    source = random.Random(seed)
    batches, offset = [], 0
    for number in range(count):
        records = tuple(
            MadeRecord(
                delta,
                timestamp_delta=source.randrange(HOUR_MS),
                key=source.choice([None, b"", b"key-%d" % source.randrange(20)]),
                value=source.choice([None, b"", source.randbytes(30) * 20]),
                headers=((b"name", b"value"),),
            )
            for delta in range(source.randint(1, 9))
        )
        start = FIRST_MS + source.randrange(3 * HOUR_MS)
        batches.append(
            MadeBatch(
                records,
                base_offset=offset,
                attributes=number % len(Codec),
                base_timestamp_ms=start,
                max_timestamp_ms=start + max(record.timestamp_delta for record in records),
            )
        )
        offset += len(records)
    return batches


def tier_of(batches: list[MadeBatch]) -> tuple[TierInMemory, SegmentRange]:
    log = b"".join(batch.encode() for batch in batches)
    end_offset = batches[-1].base_offset + max(len(batches[-1].records), 1) - 1
    metadata = make_metadata(start_offset=0, end_offset=end_offset, epochs={7: 0}, segment_size_bytes=len(log))
    tier = TierInMemory([CopiedSegment(metadata, {SegmentFile.LOG: log}, (), (), 0)])
    return tier, SegmentRange(metadata, 0, end_offset + 1, 0, len(log))


def rows_of(batches: list[MadeBatch], *, aborted: tuple[AbortedTransaction, ...] = (), **options: Any) -> Any:
    tier, whole = tier_of(batches)
    return pa.Table.from_batches(list(profile_rows(ReadSplit(PARTITION, (whole,), aborted), tier.storage, **options)))


def test_each_record_is_one_row_in_the_order_of_the_log() -> None:
    batches = made_batches()
    expected = [
        {
            "topic": PARTITION.topic,
            "hour_ms": (batch.base_timestamp_ms + record.timestamp_delta) // HOUR_MS * HOUR_MS,
            "codec": Codec(batch.attributes).name.lower(),
            "key": record.key,
            "value_bytes": None if record.value is None else len(record.value),
        }
        for batch in batches
        for record in batch.records
    ]
    rows = rows_of(batches)
    assert rows.select(list(expected[0])).to_pylist() == expected
    assert len(set(rows["hour_ms"].to_pylist())) > 2


def test_shares_add_up_to_the_batches_as_they_are_stored_and_as_they_would_be_without_compression() -> None:
    batches = made_batches()
    rows = rows_of(batches)
    plain = [batch.but(attributes=0) for batch in batches]
    assert sum(rows["stored_bytes"].to_pylist()) == pytest.approx(sum(len(batch.encode()) for batch in batches))
    assert sum(rows["plain_bytes"].to_pylist()) == pytest.approx(sum(len(batch.encode()) for batch in plain))
    assert sum(rows["batches"].to_pylist()) == pytest.approx(len(batches))
    is_compressed = [codec != "none" for codec in rows["codec"].to_pylist()]
    smaller = [a < b for a, b in zip(rows["stored_bytes"].to_pylist(), rows["plain_bytes"].to_pylist(), strict=True)]
    assert any(smaller)
    assert not any(less and not compressed for less, compressed in zip(smaller, is_compressed, strict=True))


def test_two_halves_of_a_split_inside_a_batch_add_up_to_the_whole() -> None:
    batches = made_batches()
    tier, whole = tier_of(batches)
    border = batches[10].base_offset + 1
    assert len(batches[10].records) > 1
    halves = [
        SegmentRange(whole.segment, start, stop, 0, whole.stop_position)
        for start, stop in ((0, border), (border, whole.stop_offset))
    ]
    parts = [batch for half in halves for batch in profile_rows(ReadSplit(PARTITION, (half,)), tier.storage)]
    assert pa.Table.from_batches(parts).to_pylist() == rows_of(batches).to_pylist()


@pytest.mark.parametrize(
    ("time_ms", "hour_ms"),
    [
        (-1, None),
        (0, 0),
        (END_OF_CALENDAR_MS - 1, END_OF_CALENDAR_MS - HOUR_MS),
        (END_OF_CALENDAR_MS, None),
        (2**53 + 1, None),
    ],
)
def test_times_outside_of_the_calendar_belong_to_no_hour(time_ms: int, hour_ms: int | None) -> None:
    batch = MadeBatch((MadeRecord(0, value=b"v"),), base_timestamp_ms=time_ms, max_timestamp_ms=time_ms)
    assert rows_of([batch])["hour_ms"].to_pylist() == [hour_ms]


def test_calendar_ends_where_that_of_python_does() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert round(last.timestamp() * 1000) == END_OF_CALENDAR_MS


def test_markers_empty_batches_and_aborted_ones_are_left_out() -> None:
    value = (MadeRecord(0, value=b"value"),)
    batches = [
        MadeBatch(value, base_offset=0, attributes=TRANSACTIONAL | Codec.GZIP, producer_id=5),
        marker(0, base_offset=1, producer_id=5),
        MadeBatch(base_offset=2),
        MadeBatch(value, base_offset=3, attributes=Codec.ZSTD),
    ]
    assert rows_of(batches)["codec"].to_pylist() == ["gzip", "zstd"]
    aborted = (AbortedTransaction(5, 0, 1, 2),)
    assert rows_of(batches, aborted=aborted)["codec"].to_pylist() == ["zstd"]


def test_older_records_are_left_out_where_a_time_is_given() -> None:
    batches = made_batches()
    times = [batch.base_timestamp_ms + record.timestamp_delta for batch in batches for record in batch.records]
    middle = sorted(times)[len(times) // 2]
    assert rows_of(batches, min_timestamp_ms=middle).num_rows == sum(time >= middle for time in times)


def position_of(number: int, batches: list[MadeBatch]) -> int:
    return sum(len(batch.encode()) for batch in batches[:number])


def damage(tier: TierInMemory, whole: SegmentRange, position: int) -> None:
    files = tier.files[whole.segment.segment_id]
    changed = bytearray(files[SegmentFile.LOG])
    changed[position + 65] ^= 1
    files[SegmentFile.LOG] = bytes(changed)


def rows_before_the_error(whole: SegmentRange, tier: TierInMemory) -> tuple[int, CorruptBatch]:
    given: list[Any] = []
    with pytest.raises(CorruptBatch) as raised:
        given.extend(profile_rows(ReadSplit(PARTITION, (whole,)), tier.storage))
    return sum(batch.num_rows for batch in given), raised.value


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 24])
def test_damaged_batch_is_named_by_segment_and_position_behind_the_records_before_it(number: int) -> None:
    batches = made_batches()
    tier, whole = tier_of(batches)
    damage(tier, whole, position_of(number, batches))
    rows, error = rows_before_the_error(whole, tier)
    assert WRONG_CHECKSUM in error.message
    assert error.details == {
        "segment": str(whole.segment.segment_id),
        "position": str(position_of(number, batches)),
    }
    assert rows == batches[number].base_offset


def test_damage_beside_the_offsets_that_are_wanted_is_no_matter() -> None:
    batches = made_batches()
    tier, whole = tier_of(batches)
    for number in (0, 24):
        damage(tier, whole, position_of(number, batches))
    start, stop = batches[2].base_offset, batches[24].base_offset
    wanted = SegmentRange(whole.segment, start, stop, 0, whole.stop_position)
    rows = pa.Table.from_batches(list(profile_rows(ReadSplit(PARTITION, (wanted,)), tier.storage)))
    assert rows.num_rows == stop - start


@pytest.mark.parametrize(
    "broken",
    [
        MadeBatch(body=b"not zstd at all", record_count=1, attributes=Codec.ZSTD),
        MadeBatch(body=b"\xff" * 40, record_count=1),
        MadeBatch(body=gzip.compress(b"\xff" * 40), record_count=1, attributes=Codec.GZIP),
        MadeBatch(body=gzip.compress(b"\x0e"), record_count=2, last_offset_delta=1, attributes=Codec.GZIP),
    ],
)
def test_batch_whose_records_can_not_be_read_is_named_as_readers_of_records_name_it(broken: MadeBatch) -> None:
    batches = made_batches(4)
    batches.append(broken.but(base_offset=batches[-1].base_offset + len(batches[-1].records)))
    tier, whole = tier_of(batches)
    rows, error = rows_before_the_error(whole, tier)
    with pytest.raises(CorruptBatch) as read:
        list(read_split(ReadSplit(PARTITION, (whole,)), tier.storage))
    assert error.details == read.value.details
    assert error.details["position"] == str(position_of(4, batches))
    assert rows == batches[4].base_offset


def test_segment_that_is_gone_is_an_error_or_told() -> None:
    tier, whole = tier_of(made_batches())
    split = ReadSplit(PARTITION, (whole,))
    del tier.files[whole.segment.segment_id]
    with pytest.raises(SegmentNotFound):
        list(profile_rows(split, tier.storage))
    gone: list[SegmentRange] = []
    assert list(profile_rows(split, tier.storage, on_gone=lambda one, _: gone.append(one))) == []
    assert gone == [whole]
