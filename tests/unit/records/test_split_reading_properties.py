"""Whatever the pieces, buffers and bounds, a split gives what the plain decoder finds; damage gives nothing else."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_in_memory import LogsInMemory, log_metadata, whole_split
from support.record_batches import MadeBatch, MadeRecord
from support.slow_decoder import Row, slow_rows
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import ALL_COLUMNS
from tiergate_client.records.engines import EngineName
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.split_reading import raw_batches, read_split
from tiergate_client.values import RemoteLogSegmentMetadata

ENGINES: tuple[EngineName, ...] = ("numba", "numpy")


@st.composite
def log_parts(draw: st.DrawFn) -> list[MadeBatch]:
    """Batches whose offsets ascend, with holes."""
    made: list[MadeBatch] = []
    base = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 8))):
        deltas = sorted(draw(st.sets(st.integers(0, 30), max_size=8)))
        records = tuple(MadeRecord(delta, value=b"x" * draw(st.integers(0, 300))) for delta in deltas)
        last = (deltas[-1] if deltas else 0) + draw(st.integers(0, 3))
        attributes = draw(st.sampled_from([0, 0, 1, 2, 3, 4, 0x20]))
        made.append(MadeBatch(records, base_offset=base, attributes=attributes, last_offset_delta=last))
        base += last + 1 + draw(st.integers(0, 3))
    return made


@given(log_parts(), st.data())
def test_split_gives_what_the_plain_decoder_finds(made: list[MadeBatch], data: st.DataObject) -> None:
    encoded = [batch.encode() for batch in made]
    log = b"".join(encoded)
    end_offset = made[-1].base_offset + (made[-1].last_offset_delta or 0)
    metadata = log_metadata(log, start_offset=made[0].base_offset, end_offset=end_offset)
    borders = [sum(map(len, encoded[:number])) for number in range(len(encoded) + 1)]
    cuts = sorted({0, len(log), *data.draw(st.lists(st.sampled_from(borders), max_size=3))})
    start, stop = sorted(data.draw(st.tuples(st.integers(0, end_offset + 1), st.integers(0, end_offset + 1))))
    ranges = tuple(SegmentRange(metadata, start, stop, begin, end) for begin, end in pairwise(cuts))
    split = ReadSplit(metadata.partition, ranges)
    logs = LogsInMemory({metadata: log}, piece_bytes=data.draw(st.sampled_from([7, 100, 5000])))
    chunk_bytes = data.draw(st.sampled_from([1, 100, 1000, 1 << 20]))
    expected = [row for row in slow_rows(log) if start <= int(str(row["offset"])) < stop]
    for engine in ENGINES:
        found: list[Row] = []
        for records in read_split(
            split, logs.storage, columns=ALL_COLUMNS, chunk_bytes=chunk_bytes, engine_name=engine
        ):
            records.validate(full=True)
            found += records.to_pylist()
        assert found == expected
    raw = b"".join(raw_batches(split, logs.storage, chunk_bytes=chunk_bytes))
    assert [row for row in slow_rows(raw) if start <= int(str(row["offset"])) < stop] == expected


@pytest.mark.parametrize("cases", [300, pytest.param(20_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])])
def test_no_damage_gives_another_record(cases: int) -> None:
    """Every byte counts, also those that no checksum covers: of a log without holes, all is given, or the beginning."""
    numbers = random.Random(cases)
    refused = 0
    for case in range(cases):
        if case % 20 == 0:
            log, metadata = _log_without_holes(numbers)
            original = slow_rows(log)
        changed = bytearray(log)
        for _ in range(numbers.choice([1, 1, 3])):
            changed[numbers.randrange(len(changed))] = numbers.choice([0, 1, 0x7F, 0x80, 0xFF, numbers.randrange(256)])
        logs = LogsInMemory({metadata: bytes(changed)}, piece_bytes=numbers.choice([50, 5000]))
        found, error = _rows_until_defect(whole_split(metadata), logs, numbers, ENGINES[case % 2])
        if error is None:
            assert found == original, changed.hex()
        else:
            refused += 1
            assert found == original[: len(found)], changed.hex()
            assert error.details["segment"] == str(metadata.segment_id)
            assert 0 <= int(error.details["position"]) < len(log)
        assert not logs.held_streams
    assert refused > cases // 2


def _rows_until_defect(
    split: ReadSplit, logs: LogsInMemory, numbers: random.Random, engine: EngineName
) -> tuple[list[Row], CorruptBatch | None]:
    found: list[Row] = []
    chunk_bytes = numbers.choice([1, 300, 1 << 20])
    try:
        for records in read_split(
            split, logs.storage, columns=ALL_COLUMNS, chunk_bytes=chunk_bytes, engine_name=engine
        ):
            found += records.to_pylist()
    except CorruptBatch as error:
        return found, error
    return found, None


def _log_without_holes(numbers: random.Random) -> tuple[bytes, RemoteLogSegmentMetadata]:
    made, base = [], 1000
    for codec in (0, 1, 0, 2, 3, 4, 0):
        count = numbers.randrange(1, 9)
        records = tuple(
            MadeRecord(delta, delta, b"key", b"value" * numbers.randrange(9), ((b"h", b"x"),)) for delta in range(count)
        )
        made.append(MadeBatch(records, base_offset=base, attributes=codec).encode())
        base += count
    log = b"".join(made)
    return log, log_metadata(log, start_offset=1000, end_offset=base - 1)
