"""Keys are read back as what wrote them; whatever is not ours is of no layout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.segments import make_metadata
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.store_layout import Resident, SegmentKey, parse_key

DIGEST = "0123456789abcdef" * 2
TOPIC, SEGMENT = str(TopicId(b"t" * 16)), str(SegmentId(b"s" * 16))
ROOT = f"{TOPIC}_0/{SEGMENT}"

ids = st.binary(min_size=16, max_size=16)


@given(ids, ids, st.integers(0, 2**31 - 1), st.sampled_from(SegmentFile))
def test_keys_of_a_segment_are_read_back(topic: bytes, segment: bytes, partition: int, file: SegmentFile) -> None:
    metadata = make_metadata(topic_id=TopicId(topic), segment_id=SegmentId(segment), partition=partition)
    keys = SegmentKeys.of(metadata)
    of_file = SegmentKey(metadata.partition, metadata.segment_id, DIGEST)
    assert parse_key(keys.manifest) == SegmentKey(metadata.partition, metadata.segment_id, None)
    assert parse_key(keys.file(DIGEST, file)) == of_file
    assert parse_key(keys.upload(DIGEST)) == SegmentKey(
        metadata.partition, metadata.segment_id, DIGEST, is_descriptor=True
    )


@pytest.mark.parametrize(
    ("key", "resident"),
    [
        ("tiergate.json", Resident.MARKER),
        ("snapshots/AAAAAAAAAAAAAAAAAAAAAw/000000000000001-0123456789abcdef", Resident.SNAPSHOT),
        ("snapshots", Resident.UNKNOWN),
        ("sub/tiergate.json", Resident.UNKNOWN),
        (f"{ROOT}/manifest.json.bak", Resident.UNKNOWN),
        (f"{ROOT}/{DIGEST}", Resident.UNKNOWN),
        (f"{ROOT}/{DIGEST}/new_index", Resident.UNKNOWN),
        (f"{ROOT}/{DIGEST}/log/log", Resident.UNKNOWN),
        (f"{ROOT}/{DIGEST.upper()}/log", Resident.UNKNOWN),
        (f"{ROOT}/{DIGEST[1:]}/log", Resident.UNKNOWN),
        (f"{TOPIC}_00/{SEGMENT}/manifest.json", Resident.UNKNOWN),
        (f"{TOPIC}_4294967296/{SEGMENT}/manifest.json", Resident.UNKNOWN),
        (f"{TOPIC[:-1]}1_0/{SEGMENT}/manifest.json", Resident.UNKNOWN),  # not the id's own spelling
        (f"x/{ROOT}/manifest.json", Resident.UNKNOWN),
        (f"{ROOT}/manifest.json\n", Resident.UNKNOWN),
    ],
)
def test_other_keys_are_told_apart(key: str, resident: Resident) -> None:
    assert parse_key(key) is resident
