"""Records framed by hand are byte for byte what protobuf writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate.v1 import records_pb2 as pb
from tiergate_client.records import record_framing
from tiergate_client.records.columns import ALL_COLUMNS, schema_of
from tiergate_client.records.record_framing import FramedRecords, frame_records

LONGS = st.integers(-(2**63), 2**63 - 1)
SMALL_OR_LARGE = st.one_of(st.binary(max_size=4), st.integers(120, 300).map(bytes), st.just(b"x" * 20_000))
HEADERS = st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | SMALL_OR_LARGE}), max_size=3)
ROWS = st.fixed_dictionaries(
    {
        "key": st.none() | SMALL_OR_LARGE,
        "value": st.none() | SMALL_OR_LARGE,
        "offset": st.integers(0, 2**63 - 1),
        "timestamp": LONGS,
        "timestamp_type": st.integers(0, 1),
        "headers": HEADERS,
    }
)


@pytest.fixture(params=["compiled", "plain"])
def framing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(record_framing, "_framing", lambda: record_framing._frame_plainly)
    else:
        assert record_framing._framing() is not record_framing._frame_plainly, "numba is missing"
    return str(request.param)


def message_of(row: dict[str, Any]) -> pb.Record:
    return pb.Record(
        offset=row["offset"],
        timestamp_ms=row["timestamp"],
        timestamp_type=row["timestamp_type"] + 1,
        key=row.get("key"),
        value=row.get("value"),
        headers=[pb.RecordHeader(key=one["key"], value=one["value"]) for one in row.get("headers", ())],
    )


def payload_of(row: dict[str, Any]) -> int:
    headers = sum(len(one["key"].encode()) + len(one["value"] or b"") for one in row["headers"])
    return len(row["key"] or b"") + len(row["value"] or b"") + headers


def records_in(framed: FramedRecords) -> list[bytes]:
    begins = [0, *framed.ends.tolist()]
    return [framed.content[begin:end].tobytes() for begin, end in pairwise(begins)]


def check(rows: list[dict[str, Any]], batch: Any) -> None:
    framed = frame_records(batch)
    expected = [pb.ReadRecordsResponse(records=[message_of(row)]).SerializeToString() for row in rows]
    assert records_in(framed) == expected
    assert framed.content.tobytes() == b"".join(expected)
    assert framed.offsets.tolist() == [row["offset"] for row in rows]


@pytest.mark.usefixtures("framing")
class TestFraming:
    @given(rows=st.lists(ROWS, max_size=8), cut=st.integers(0, 8))
    def test_bytes_are_those_of_protobuf(self, rows: list[dict[str, Any]], cut: int) -> None:
        batch = pa.RecordBatch.from_pylist(rows, schema=schema_of(ALL_COLUMNS))
        check(rows, batch)
        check(rows[cut:], batch.slice(min(cut, len(rows))))
        payloads = [payload_of(row) for row in rows]
        assert frame_records(batch).payload_ends.tolist() == [sum(payloads[: at + 1]) for at in range(len(rows))]

    @pytest.mark.parametrize("wanted", [(), ("key",), ("value",), ("headers",), ("key", "headers")])
    def test_columns_that_are_not_there_are_left_out(self, wanted: tuple[str, ...]) -> None:
        rows: list[dict[str, Any]] = [
            {"key": b"k", "value": None, "headers": [{"key": "h", "value": b"v"}]},
            {"key": None, "value": b"", "headers": []},
        ]
        columns = ("offset", "timestamp", "timestamp_type", *wanted)
        numbered = [{"offset": at, "timestamp": -1, "timestamp_type": at, **row} for at, row in enumerate(rows)]
        kept = [{name: row[name] for name in columns} for row in numbered]
        check(kept, pa.RecordBatch.from_pylist(kept, schema=schema_of(columns)))
