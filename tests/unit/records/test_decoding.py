"""Batches become the records that were written, whichever engine reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from support.decoding_memory import watched_memory
from support.record_batches import MadeBatch, MadeRecord, marker, varint, zstd_without_content_size
from tiergate_client.errors import CorruptBatch, InvalidField
from tiergate_client.records import ALL_COLUMNS, Codec, ScannedBatches, decode_batches
from tiergate_client.records.defects import MOST_HEADERS
from tiergate_client.records.engines import EngineName

TWO_RECORDS = bytes.fromhex(
    "0000000000000005000000480000000702fde865790000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "0000000212000000026b0476310018000a02010476320202680278"
)
ABORT_MARKER = bytes.fromhex(
    "000000000000000700000042000000070250d8e4c00030000000000000018bcfe5680a0000018bcfe5680a00000000000023280002ffffffff"
    "000000012000000008000000000c00000000000d00"
)
LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40


@pytest.fixture(params=["numba", "numpy"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    name: EngineName = request.param
    return name


def rows(content: bytes, engine: EngineName, **options: Any) -> list[dict[str, Any]]:
    options.setdefault("columns", ALL_COLUMNS)
    return [row for batch in decode_batches(content, engine_name=engine, **options) for row in batch.to_pylist()]


def batch(*records: MadeRecord, **fields: Any) -> MadeBatch:
    return MadeBatch(records, **fields)


def test_records_of_the_documented_batch_are_read(engine: EngineName) -> None:
    assert rows(TWO_RECORDS, engine) == [
        {
            "key": b"k",
            "value": b"v1",
            "offset": 5,
            "timestamp": 1_700_000_000_000,
            "timestamp_type": 0,
            "headers": [],
        },
        {
            "key": None,
            "value": b"v2",
            "offset": 6,
            "timestamp": 1_700_000_000_005,
            "timestamp_type": 0,
            "headers": [{"key": "h", "value": b"x"}],
        },
    ]


def test_control_batches_are_never_given(engine: EngineName) -> None:
    content = TWO_RECORDS + ABORT_MARKER + marker(99, base_offset=8, producer_id=1).encode()
    assert [row["offset"] for row in rows(content, engine)] == [5, 6]
    assert rows(ABORT_MARKER, engine) == []


def test_null_and_empty_are_told_apart(engine: EngineName) -> None:
    made = batch(
        MadeRecord(0, key=None, value=b""),
        MadeRecord(1, key=b"", value=None),
        MadeRecord(2, headers=((b"", None), (b"a", b""))),
    )
    read = rows(made.encode(), engine)
    assert [(row["key"], row["value"]) for row in read] == [(None, b""), (b"", None), (None, None)]
    assert read[2]["headers"] == [{"key": "", "value": None}, {"key": "a", "value": b""}]


def test_every_record_has_the_max_timestamp_under_log_append_time(engine: EngineName) -> None:
    made = batch(MadeRecord(0), MadeRecord(1, 5), attributes=LOG_APPEND_TIME, max_timestamp_ms=42)
    assert [(row["timestamp"], row["timestamp_type"]) for row in rows(made.encode(), engine)] == [(42, 1)] * 2


def test_timestamps_count_from_the_horizon_where_one_is_set(engine: EngineName) -> None:
    made = batch(MadeRecord(0, -500), attributes=DELETE_HORIZON, base_timestamp_ms=10_500)
    assert rows(made.encode(), engine)[0]["timestamp"] == 10_000


def test_timestamps_that_no_float_holds_are_exact(engine: EngineName) -> None:
    made = batch(MadeRecord(0, 2**53 + 1), MadeRecord(1, -(2**63)), base_timestamp_ms=0)
    assert [row["timestamp"] for row in rows(made.encode(), engine)] == [2**53 + 1, -(2**63)]


def test_empty_batches_and_holes_of_compaction_are_passed(engine: EngineName) -> None:
    content = (
        batch(last_offset_delta=9, base_timestamp_ms=-1).encode()
        + batch(MadeRecord(3), MadeRecord(7), base_offset=10, last_offset_delta=9).encode()
        + batch(base_offset=20, attributes=0x20).encode()
        + batch(base_offset=21, attributes=Codec.ZSTD).encode()
        + batch(MadeRecord(0), base_offset=30).encode()
    )
    assert [row["offset"] for row in rows(content, engine)] == [13, 17, 30]
    assert rows(content, engine, check_crc=False) == rows(content, engine)


def test_nothing_comes_of_nothing(engine: EngineName) -> None:
    assert rows(b"", engine) == rows(batch().encode(), engine) == []


@pytest.mark.parametrize("cut", [1, 30, 60, 70, len(TWO_RECORDS) - 1])
def test_batch_that_is_cut_at_the_end_is_left_out(engine: EngineName, cut: int) -> None:
    assert [row["offset"] for row in rows(TWO_RECORDS + ABORT_MARKER + TWO_RECORDS[:cut], engine)] == [5, 6]


def test_batch_that_is_cut_is_corrupt_when_the_segment_ends_there(engine: EngineName) -> None:
    with pytest.raises(CorruptBatch, match=r"position 1084 of segment s-1.*only 60 of its bytes"):
        rows(TWO_RECORDS + TWO_RECORDS[:60], engine, is_whole=True, base_position=1000, segment="s-1")


@pytest.mark.parametrize("codec", Codec)
def test_codec_is_read_beside_batches_without_one(engine: EngineName, codec: Codec) -> None:
    records = tuple(MadeRecord(delta, delta, b"k%d" % delta, b"v" * delta, ((b"h", b"x"),)) for delta in range(300))
    plain = batch(*records)
    content = plain.encode() + plain.but(base_offset=300, attributes=int(codec)).encode()
    content += plain.but(base_offset=600).encode()
    read = rows(content, engine)
    assert [row["offset"] for row in read] == list(range(900))
    assert [row["value"] for row in read] == [record.value for record in records] * 3
    assert read[299]["headers"] == read[599]["headers"] == [{"key": "h", "value": b"x"}]


def test_only_asked_columns_are_given_in_the_order_asked(engine: EngineName) -> None:
    (given,) = decode_batches(TWO_RECORDS, columns=("value", "offset"), engine_name=engine)
    assert given.schema.names == ["value", "offset"]
    assert given.to_pydict() == {"value": [b"v1", b"v2"], "offset": [5, 6]}


def test_arrow_finds_the_columns_valid(engine: EngineName) -> None:
    for given in decode_batches(TWO_RECORDS * 3, columns=ALL_COLUMNS, engine_name=engine):
        given.validate(full=True)
        assert given.schema.field("headers").type.value_type.field("key").type == pa.string()


def test_column_that_does_not_exist_is_refused_at_once_with_the_nearest() -> None:
    with pytest.raises(InvalidField, match="did you mean 'timestamp_type'"):
        decode_batches(b"", columns=("timestamptype",))
    for columns in ((), ("key", "key")):
        with pytest.raises(InvalidField, match="at least one"):
            decode_batches(b"", columns=columns)


def test_batches_are_joined_up_to_the_size_asked(engine: EngineName) -> None:
    content = b"".join(batch(MadeRecord(0, value=b"x" * 100), base_offset=at).encode() for at in range(10))
    sizes = [one.num_rows for one in decode_batches(content, group_bytes=300, engine_name=engine)]
    assert sizes == [3, 3, 4]  # a small rest is no group of its own
    assert [one.num_rows for one in decode_batches(content, engine_name=engine)] == [10]


def test_batches_that_are_not_kept_are_left_out(engine: EngineName) -> None:
    content = TWO_RECORDS + ABORT_MARKER + batch(MadeRecord(0), base_offset=8).encode()

    def keep(scanned: ScannedBatches) -> npt.NDArray[np.bool_]:
        return np.array([header.base_offset > 5 for header in scanned])

    assert [row["offset"] for row in rows(content, engine, keep=keep)] == [8]


def test_header_key_that_is_not_utf8_is_replaced_as_in_kafkas_consumer(engine: EngineName) -> None:
    made = batch(MadeRecord(0, headers=((b"a\xff", b"1"), (b"\xc3\xa9", b"2"))))
    assert [header["key"] for header in rows(made.encode(), engine)[0]["headers"]] == ["a\ufffd", "\xe9"]


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        ("eda080", "fffd"),
        ("eda041", "fffd 0041"),
        ("eda0", "fffd"),
        ("61edb0", "0061 fffd"),
        ("edbfbf41", "fffd 0041"),
        ("eda0bdedb880", "fffd fffd"),
        ("eda08080", "fffd fffd"),
        ("ed41", "fffd 0041"),
        ("ed9fbfff", "d7ff fffd"),
        ("e2eda080", "fffd fffd"),
        ("f090eda080", "fffd fffd"),
        ("f0808080", "fffd fffd fffd fffd"),
        ("f4908080", "fffd fffd fffd fffd"),
        ("e080", "fffd fffd"),
        ("e282", "fffd"),
        ("f09f98", "fffd"),
        ("c0af", "fffd fffd"),
        ("f0908041", "fffd 0041"),
    ],
)
def test_header_key_is_what_java_makes_of_its_bytes(engine: EngineName, key: str, printed: str) -> None:
    """Printed by `new String(bytes, StandardCharsets.UTF_8)` of OpenJDK 17, character by character."""
    made = batch(MadeRecord(0, headers=((bytes.fromhex(key), b"1"),)))
    (header,) = rows(made.encode(), engine)[0]["headers"]
    assert header["key"] == "".join(chr(int(one, 16)) for one in printed.split())


def test_checksum_is_checked_unless_it_is_switched_off(engine: EngineName) -> None:
    damaged = bytearray(TWO_RECORDS)
    damaged[68] ^= 1
    with pytest.raises(CorruptBatch, match="checksum") as refused:
        rows(bytes(damaged), engine)
    assert refused.value.details == {"segment": "", "position": "0"}
    assert len(rows(bytes(damaged), engine, check_crc=False)) == 2


def test_leader_epoch_is_not_under_the_checksum(engine: EngineName) -> None:
    changed = bytearray(TWO_RECORDS)
    changed[12:16] = b"\x00\x00\x01\x00"
    assert len(rows(bytes(changed), engine)) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_by_name(engine: EngineName, magic: int) -> None:
    with pytest.raises(CorruptBatch, match=f"old format {magic}.*only format 2"):
        rows(TWO_RECORDS + batch(MadeRecord(0), magic=magic).encode(), engine)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (batch(MadeRecord(0, value=b"x" * 9), record_count=2, last_offset_delta=5), "end before"),
        (batch(MadeRecord(0), MadeRecord(1), record_count=1), "bytes are left"),
        (batch(MadeRecord(1), MadeRecord(0)), "do not ascend"),
        (batch(MadeRecord(2), last_offset_delta=1), "do not ascend"),
        (batch(MadeRecord(-1), last_offset_delta=1), "do not ascend"),
        (batch(record_count=1, body=b"\x0e\x00\x00\x00\x7f\x01\x00\x00"), "key or value"),
        (batch(record_count=1, body=b"\x0e\x00\x00\x00\x03\x01\x00\x00"), "key or value"),
        (batch(record_count=1, body=b"\x0c\x00\x00\x00\x01\x01\x01"), "headers"),
        (batch(record_count=1, body=b"\x0c\x00\x00\x00\x01\x01\x7e"), "headers"),
        (batch(record_count=1, body=b"\x10\x00\x00\x00\x01\x01\x02\x01\x01"), "headers"),
        (batch(record_count=1, body=b"\x0e\x00\x00\x00\x01\x01\x00\x00"), "do not fill"),
        (batch(record_count=1, body=b"\x0c\x00\x80\x80\x80\x80\x80"), "does not end"),
        (batch(record_count=1, body=b"\x16\x00\x00\xff\xff\xff\xff\x7f\x01\x01\x00\x00"), "does not end"),
        (batch(record_count=1, body=b"\x00" * 7), "does not end"),
        (batch(record_count=1, body=b"\x01" * 7), "end before"),
        (batch(record_count=100, last_offset_delta=200, body=b"\x00" * 90), "do not fit"),
        (batch(MadeRecord(0), record_count=-1), "makes no sense"),
        (batch(MadeRecord(0), record_count=0), "makes no sense"),
        (batch(MadeRecord(0), base_offset=-1), "makes no sense"),
        (batch(MadeRecord(0), last_offset_delta=-1), "makes no sense"),
        (batch(MadeRecord(0), base_offset=2**63 - 1, last_offset_delta=1), "makes no sense"),
        (batch(MadeRecord(0), attributes=5, body=b"x"), "codec is 5"),
        (batch(MadeRecord(0), magic=3), "format is 3"),
    ],
)
def test_batch_that_makes_no_sense_is_corrupt_and_those_before_it_are_given(
    engine: EngineName, made: MadeBatch, why: str
) -> None:
    read: list[int] = []
    with pytest.raises(CorruptBatch, match=why) as refused:  # noqa: PT012 - what came before counts
        for given in decode_batches(
            TWO_RECORDS + made.encode() + TWO_RECORDS, base_position=100, segment="s", engine_name=engine
        ):
            read += given["offset"].to_pylist()
    assert read == [5, 6]
    assert refused.value.details == {"segment": "s", "position": str(100 + len(TWO_RECORDS))}


def test_record_of_very_many_headers_is_read_in_time(engine: EngineName) -> None:
    made = batch(MadeRecord(0, headers=((b"", None),) * 300_000))
    assert len(rows(made.encode(), engine)[0]["headers"]) == 300_000


def test_record_of_more_headers_than_any_may_have_is_corrupt_and_takes_no_memory(engine: EngineName) -> None:
    count = MOST_HEADERS + 1
    record = b"\x00\x00\x00\x01\x01" + varint(count) + b"\x00\x01" * count
    body = zstd_without_content_size(varint(len(record)) + record)
    made = batch(attributes=int(Codec.ZSTD), record_count=1, body=body).encode()
    rows(TWO_RECORDS, engine)  # what is loaded once does not count
    with watched_memory() as memory:
        with pytest.raises(CorruptBatch, match=f"more than {MOST_HEADERS} headers"):
            rows(made, engine)
        assert memory.size_bytes < 10 * len(record)


def test_records_of_many_headers_are_given_in_parts_of_few(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = (0, 3, 4, 0, 9, 1, 6, 2)
    made = [MadeRecord(delta, delta, headers=((b"k", b"%d" % delta),) * count) for delta, count in enumerate(counts)]
    content = batch(*made[:3]).encode() + batch(*made[3:], attributes=LOG_APPEND_TIME, base_offset=5).encode()
    whole = rows(content, engine)
    monkeypatch.setattr("tiergate_client.records.record_decoder.MOST_HEADERS", 7)
    parts = [part.to_pylist() for part in decode_batches(content, columns=ALL_COLUMNS, engine_name=engine)]
    assert [row for part in parts for row in part] == whole
    assert [[len(row["headers"]) for row in part] for part in parts] == [[0, 3, 4, 0], [9], [1, 6], [2]]


def test_group_is_bounded_whatever_is_asked_for(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(batch(MadeRecord(0, value=bytes(100)), base_offset=base).encode() for base in range(50))
    monkeypatch.setattr("tiergate_client.records.record_decoder.MOST_GROUP_BYTES", 1000)
    given = [one.num_rows for one in decode_batches(content, group_bytes=2**40, engine_name=engine)]
    assert sum(given) == 50
    assert max(given) <= 15


def test_batch_of_the_smallest_records_takes_little_memory_beside_what_is_given(engine: EngineName) -> None:
    count = 200_000 if engine == "numba" else 40_000
    deltas = np.arange(count)
    body = np.zeros((count, 9), np.uint8)
    body[:, 0] = 16
    body[:, 3], body[:, 4], body[:, 5] = deltas << 1 & 0x7F | 0x80, deltas >> 6 & 0x7F | 0x80, deltas >> 13
    body[:, 6:8] = 1
    compressed = zstd_without_content_size(body.tobytes())
    made = batch(attributes=int(Codec.ZSTD), record_count=count, last_offset_delta=count - 1, body=compressed).encode()
    rows(TWO_RECORDS, engine)  # what is loaded once does not count
    read = 0
    with watched_memory() as memory:
        for given in decode_batches(made, columns=ALL_COLUMNS, group_bytes=1 << 14, engine_name=engine):
            assert given["offset"][0].as_py() == read
            read += given.num_rows
        assert memory.size_bytes < 5 * body.nbytes
    assert read == count


def test_batch_that_is_given_in_steps_takes_memory_by_the_step(engine: EngineName) -> None:
    made = batch(*(MadeRecord(delta, key=b"k", value=b"x" * 1000) for delta in range(8000))).encode()
    rows(TWO_RECORDS, engine)  # what is loaded once does not count
    with watched_memory() as memory:
        for given in decode_batches(made, group_bytes=1 << 18, engine_name=engine):
            assert given.nbytes < 1 << 19
        assert memory.size_bytes < len(made) / 4


def test_defect_keeps_no_second_copy_of_the_batches_before_it(engine: EngineName) -> None:
    sound = b"".join(batch(MadeRecord(0, value=bytes(1000)), base_offset=base).encode() for base in range(2000))
    content = sound + batch(MadeRecord(1), MadeRecord(0), base_offset=2000).encode()
    rows(TWO_RECORDS, engine)  # what is loaded once does not count
    with watched_memory() as memory:
        decoded = decode_batches(content, group_bytes=4 << 20, engine_name=engine)
        assert next(decoded).num_rows == 2000
        assert memory.held_bytes < 1.5 * len(content)
        with pytest.raises(CorruptBatch, match="do not ascend") as refused:
            next(decoded)
        assert memory.held_bytes < 1.5 * len(content), refused
        assert memory.size_bytes < 3 * len(content)


@pytest.mark.parametrize("length", [7, 8, 31, 32, 33, 63, 64, 65, 511, 512, 513, 8191, 8192])
def test_lengths_around_those_that_are_copied_otherwise_are_read_exactly(engine: EngineName, length: int) -> None:
    """The last one stands at the end of the bytes, where nothing can be copied beyond."""
    contents = [bytes([65 + number]) * size for number, size in enumerate((length, 1, length, 0, length - 1, length))]
    made = batch(*(MadeRecord(delta, key=one, value=one[::-1]) for delta, one in enumerate(contents)))
    read = rows(made.encode(), engine)
    assert [row["key"] for row in read] == [row["value"] for row in read] == contents


def test_defect_at_the_end_of_a_batch_that_is_given_in_steps_leaves_all_of_it_out(engine: EngineName) -> None:
    records = tuple(MadeRecord(delta, value=b"x" * 50) for delta in range(100))
    made = batch(*records, MadeRecord(99), base_offset=7, last_offset_delta=200)
    content = TWO_RECORDS + made.encode()
    read: list[int] = []
    with pytest.raises(CorruptBatch, match="do not ascend"):  # noqa: PT012 - what came before counts
        for given in decode_batches(content, group_bytes=200, engine_name=engine):
            read += given["offset"].to_pylist()
    assert read == [5, 6]
