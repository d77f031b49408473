"""Over made-up and damaged bytes, both engines say what a plain decoder says, or refuse the same batch."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.record_batches import MadeBatch, MadeRecord, marker, with_right_checksum
from support.slow_decoder import Row, slow_rows_until_defect
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import ALL_COLUMNS, decode_batches
from tiergate_client.records.engines import EngineName

_COLUMNS = st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True)
_SMALL_BYTES = st.none() | st.binary(max_size=200)
_INT64 = st.integers(-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read before the first batch that can not be, where that is, and why it can not."""

    rows: list[Row]
    position: int | None = None
    reason: str = ""


def read_by(
    engine: EngineName, content: bytes, *, columns: Sequence[str], check_crc: bool = True, group_bytes: int
) -> Read:
    rows: list[Row] = []
    try:
        for batch in decode_batches(
            content, columns=columns, check_crc=check_crc, group_bytes=group_bytes, engine_name=engine
        ):
            batch.validate(full=True)
            rows += batch.to_pylist()
    except CorruptBatch as error:
        return Read(rows, int(error.details["position"]), str(error))
    return Read(rows)


def assert_read_as_by_the_plain_decoder(
    content: bytes, *, columns: Sequence[str] = ALL_COLUMNS, check_crc: bool = True, group_bytes: int
) -> bool:
    """Whether a batch was refused."""
    rows, position = slow_rows_until_defect(content, check_crc=check_crc)
    compiled, plain = (
        read_by(engine, content, columns=columns, check_crc=check_crc, group_bytes=group_bytes)
        for engine in ("numba", "numpy")
    )
    assert compiled == plain, content.hex()
    assert plain.rows == [{name: row[name] for name in columns} for row in rows], content.hex()
    assert plain.position == position, content.hex()
    return position is not None


@st.composite
def batches(draw: st.DrawFn) -> MadeBatch:
    deltas = sorted(draw(st.sets(st.integers(0, 20_000), max_size=12)))
    records = tuple(
        MadeRecord(
            delta,
            draw(_INT64 if draw(st.booleans()) else st.integers(-100, 100)),
            draw(_SMALL_BYTES),
            draw(_SMALL_BYTES),
            tuple(draw(st.lists(st.tuples(st.binary(max_size=9), _SMALL_BYTES), max_size=3))),
        )
        for delta in deltas
    )
    flags = draw(st.sampled_from([0, 0x08, 0x10, 0x20, 0x40, 0x48]))
    return MadeBatch(
        records,
        base_offset=draw(st.integers(0, 2**62)),
        attributes=draw(st.integers(0, 4)) | flags,
        base_timestamp_ms=draw(_INT64),
        max_timestamp_ms=draw(_INT64),
        last_offset_delta=(deltas[-1] if deltas else 0) + draw(st.integers(0, 5)),
    )


@given(st.lists(batches(), max_size=6), st.integers(0, 100), st.sampled_from([1, 500, 1 << 20]), _COLUMNS)
def test_engines_read_what_the_plain_decoder_reads(
    made: list[MadeBatch], cut: int, group_bytes: int, columns: list[str]
) -> None:
    content = b"".join(batch.encode() for batch in made)
    content = content[: len(content) - cut] if cut < len(content) else content
    assert not assert_read_as_by_the_plain_decoder(content, columns=columns, group_bytes=group_bytes)


def _sample(random_numbers: random.Random) -> list[bytes]:
    made: list[bytes] = []
    offset = 0
    for codec in (0, 0, 1, 2, 3, 4, 0):
        records = tuple(
            MadeRecord(
                delta,
                random_numbers.randrange(-300, 300),
                random_numbers.choice([None, b"", b"key-%d" % delta]),
                random_numbers.choice([None, b"", b"value " * random_numbers.randrange(1, 30)]),
                ((b"h%d" % delta, b"x"),) * random_numbers.randrange(3),
            )
            for delta in range(random_numbers.randrange(1, 12))
        )
        made.append(MadeBatch(records, base_offset=offset, attributes=codec).encode())
        made.append(marker(0, base_offset=offset + 20, producer_id=9).encode())
        offset += 30
    return made


def _mutated(made: list[bytes], random_numbers: random.Random, *, repair: bool) -> bytes:
    """Some bytes changed, in one batch mostly; `repair` makes the checksum right, so that what follows is reached."""
    changed = list(made)
    for _ in range(random_numbers.choice([1, 1, 1, 2, 5])):
        number = random_numbers.randrange(len(changed))
        batch = bytearray(changed[number])
        at = random_numbers.randrange(16 if repair else 0, len(batch))
        match random_numbers.randrange(4):
            case 0:
                batch[at] ^= 1 << random_numbers.randrange(8)
            case 1:
                batch[at] = random_numbers.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                batch[at : at + 4] = struct.pack(">i", random_numbers.choice([-1, 0, 1, 2**31 - 1, -(2**31)]))
            case _:
                batch[at] = random_numbers.randrange(256)
        changed[number] = with_right_checksum(batch) if repair else bytes(batch)
    return b"".join(changed)


@pytest.mark.parametrize("check_crc", [True, False])
@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize("cases", [150, pytest.param(25_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])])
def test_damaged_bytes_are_refused_or_read_as_the_plain_decoder_does(cases: int, repair: bool, check_crc: bool) -> None:
    random_numbers = random.Random(f"{cases} {repair} {check_crc}")
    refused = 0
    made = _sample(random_numbers)
    for case in range(cases):
        made = made if case % 25 else _sample(random_numbers)
        content = _mutated(made, random_numbers, repair=repair)
        group_bytes = 100 if random_numbers.random() < 0.1 else 1 << 20
        columns = ALL_COLUMNS if case % 2 else random_numbers.sample(ALL_COLUMNS, random_numbers.randrange(1, 6))
        refused += assert_read_as_by_the_plain_decoder(
            content, columns=columns, check_crc=check_crc, group_bytes=group_bytes
        )
    assert refused > cases // 4


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_noise_is_refused_or_gives_nothing(noise: bytes) -> None:
    assert_read_as_by_the_plain_decoder(noise, group_bytes=1)
