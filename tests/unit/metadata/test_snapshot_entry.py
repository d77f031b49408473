from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.vectors import EVENTS, FOO_3, SNAPSHOT_ENTRY, SNAPSHOT_ENTRY_BYTES

from support.metadata_events import segments
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.metadata.event_errors import CorruptEvent, UnknownEvent
from tiergate_server.metadata.snapshot_entry import decode_snapshot_entry, encode_snapshot_entry


def test_encoding_gives_the_example_bytes() -> None:
    assert encode_snapshot_entry(SNAPSHOT_ENTRY).hex() == SNAPSHOT_ENTRY_BYTES.hex()


def test_decoding_gives_the_example_without_the_flag_that_an_entry_can_not_hold() -> None:
    assert SNAPSHOT_ENTRY.txn_index_empty
    assert decode_snapshot_entry(SNAPSHOT_ENTRY_BYTES, FOO_3) == replace(SNAPSHOT_ENTRY, txn_index_empty=False)


@given(metadata=segments())
def test_decoding_inverts_encoding(metadata: RemoteLogSegmentMetadata) -> None:
    decoded = decode_snapshot_entry(encode_snapshot_entry(metadata), metadata.partition)
    assert decoded == replace(metadata, txn_index_empty=False)


def test_truncation_at_any_byte_is_corrupt() -> None:
    for length in range(len(SNAPSHOT_ENTRY_BYTES)):
        with pytest.raises(CorruptEvent):
            decode_snapshot_entry(SNAPSHOT_ENTRY_BYTES[:length], FOO_3)


def test_trailing_byte_is_corrupt() -> None:
    with pytest.raises(CorruptEvent, match="1 more follow"):
        decode_snapshot_entry(SNAPSHOT_ENTRY_BYTES + b"\0", FOO_3)


def test_unknown_tag_is_skipped() -> None:
    entry = SNAPSHOT_ENTRY_BYTES[:-1] + bytes.fromhex("010502beef")
    assert decode_snapshot_entry(entry, FOO_3) == decode_snapshot_entry(SNAPSHOT_ENTRY_BYTES, FOO_3)


@pytest.mark.parametrize("name", EVENTS)
def test_event_of_the_log_is_not_an_entry(name: str) -> None:
    with pytest.raises(UnknownEvent, match="not a snapshot entry"):
        decode_snapshot_entry(EVENTS[name][1], FOO_3)


@given(data=st.binary() | st.binary().map(lambda tail: b"\1\3\0" + tail))
def test_random_bytes_are_an_entry_or_a_documented_error(data: bytes) -> None:
    try:
        metadata = decode_snapshot_entry(data, FOO_3)
    except (UnknownEvent, CorruptEvent):
        return
    assert metadata.partition is FOO_3
