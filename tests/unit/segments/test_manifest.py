from __future__ import annotations

import json

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from support.segments import make_data, make_metadata, segment_data
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import NotOffered, StoredDataCorrupt
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_server.segments.manifest import SegmentManifestV1, TombstoneV1, decode_manifest

SEGMENT_ID = SegmentId(bytes(15) + b"\2")
CONTENT = SegmentManifest(
    RemoteLogSegmentMetadata(
        partition=TopicIdPartition(TopicId(bytes(15) + b"\1"), 7, "orders"),
        segment_id=SEGMENT_ID,
        start_offset=100,
        end_offset=199,
        segment_leader_epochs=LeaderEpochs.of({0: 100, 3: 150}),
        segment_size_bytes=1048577,
        max_timestamp_ms=9007199254740993,
        broker_id=1,
        event_timestamp_ms=1700000000000,
        custom_metadata=b"\0\xff",
        state=SegmentState.COPY_STARTED,
        txn_index_empty=True,
    ),
    {
        SegmentFile.LOG: FileChecksum(BLOCK_BYTES + 1, 4294967295),
        SegmentFile.OFFSET_INDEX: FileChecksum(8, 1),
        SegmentFile.TIME_INDEX: FileChecksum(12, 2),
        SegmentFile.LEADER_EPOCH: FileChecksum(8, 3),
    },
    (0x01020304, 0xFFFFFFFF),
)
GOLDEN_SEGMENT = (
    b'{"crc32c":"22dc3ef2","version":1,"kind":"segment","upload_digest":"c3a81529f0bb888a0ded04f08750d751",'
    b'"metadata":{"topic":"orders","topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partition":7,'
    b'"segment_id":"AAAAAAAAAAAAAAAAAAAAAg","start_offset":100,"end_offset":199,'
    b'"segment_leader_epochs":[[0,100],[3,150]],"segment_size_bytes":1048577,'
    b'"max_timestamp_ms":9007199254740993,"broker_id":1,"event_timestamp_ms":1700000000000,'
    b'"custom_metadata":"AP8=","state":"COPY_STARTED","txn_index_empty":true},'
    b'"files":{"leader_epoch":{"size_bytes":8,"crc32c":3},"log":{"size_bytes":1048577,"crc32c":4294967295},'
    b'"offset_index":{"size_bytes":8,"crc32c":1},"time_index":{"size_bytes":12,"crc32c":2}},'
    b'"block_bytes":1048576,"log_block_crc32c":"AQIDBP////8="}'
)
GOLDEN_TOMBSTONE = (
    b'{"crc32c":"82a0e219","version":1,"kind":"tombstone","segment_id":"AAAAAAAAAAAAAAAAAAAAAg","deleted_at_ms":5}'
)


def framed(rest: bytes) -> bytes:
    return b'{"crc32c":"%08x",' % crc32c(rest) + rest


def changed(data: bytes, **members: object) -> bytes:
    fields = {**json.loads(data), **members}
    del fields["crc32c"]
    return framed(json.dumps(fields).encode("ascii")[1:])


def test_manifest_has_exactly_these_bytes() -> None:
    assert SegmentManifestV1(CONTENT).to_bytes() == GOLDEN_SEGMENT
    assert decode_manifest(GOLDEN_SEGMENT, SEGMENT_ID) == SegmentManifestV1(CONTENT)


def test_tombstone_has_exactly_these_bytes() -> None:
    assert TombstoneV1(SEGMENT_ID, 5).to_bytes() == GOLDEN_TOMBSTONE
    assert decode_manifest(GOLDEN_TOMBSTONE, SEGMENT_ID) == TombstoneV1(SEGMENT_ID, 5)


@given(data=segment_data(), custom_metadata=st.none() | st.binary(max_size=128))
@settings(max_examples=30, deadline=None)
def test_manifest_is_read_back(data: LogSegmentData, custom_metadata: bytes | None) -> None:
    content = data.manifest(make_metadata(custom_metadata=custom_metadata))
    assert decode_manifest(SegmentManifestV1(content).to_bytes(), content.metadata.segment_id).content == content  # type: ignore[union-attr]


def test_manifest_of_a_large_log_stays_small() -> None:
    blocks = 2047
    files = {**CONTENT.files, SegmentFile.LOG: FileChecksum(blocks * BLOCK_BYTES, 0)}
    content = SegmentManifest(CONTENT.metadata, files, tuple(range(blocks)))
    assert len(SegmentManifestV1(content).to_bytes()) < 16 * 1024


@pytest.mark.parametrize("golden", [GOLDEN_SEGMENT, GOLDEN_TOMBSTONE], ids=["segment", "tombstone"])
def test_every_flipped_bit_and_every_cut_is_found(golden: bytes) -> None:
    for bit in range(len(golden) * 8):
        damaged = bytearray(golden)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoredDataCorrupt):
            decode_manifest(bytes(damaged), SEGMENT_ID)
    for size in range(len(golden)):
        with pytest.raises(StoredDataCorrupt):
            decode_manifest(golden[:size], SEGMENT_ID)


def test_corruption_names_the_segment_and_where_it_is() -> None:
    with pytest.raises(StoredDataCorrupt) as caught:
        decode_manifest(b"", SEGMENT_ID)
    assert caught.value.details == {"segment": str(SEGMENT_ID), "file": "manifest", "position": "0"}


@pytest.mark.parametrize(
    "data",
    [
        framed(b'"version":1}'),
        framed(b'"version":"one","kind":"segment"}'),
        framed(b'"version":1,"kind":"other"}'),
        framed(b'"version":1,"kind":"segment"'),
        changed(GOLDEN_TOMBSTONE, segment_id=5),
        changed(GOLDEN_TOMBSTONE, segment_id="x"),
        changed(GOLDEN_TOMBSTONE, kind="segment"),
    ],
)
def test_content_that_is_not_understood_is_corrupt_although_its_checksum_matches(data: bytes) -> None:
    with pytest.raises(StoredDataCorrupt, match="not understood"):
        decode_manifest(data, SEGMENT_ID)


@pytest.mark.parametrize(
    "members",
    [
        {"block_bytes": 4096},
        {"upload_digest": "0" * 32},
        {"files": {}},
        {"files": []},
        {"log_block_crc32c": "AAAA"},
        {"log_block_crc32c": "AA=="},
        {"metadata": {}},
    ],
    ids=str,
)
def test_manifest_whose_members_contradict_each_other_is_corrupt(members: dict[str, object]) -> None:
    with pytest.raises(StoredDataCorrupt, match="not understood"):
        decode_manifest(changed(GOLDEN_SEGMENT, **members), SEGMENT_ID)


@pytest.mark.parametrize("golden", [GOLDEN_SEGMENT, GOLDEN_TOMBSTONE], ids=["segment", "tombstone"])
def test_manifest_of_another_segment_is_corrupt(golden: bytes) -> None:
    with pytest.raises(StoredDataCorrupt, match=f"belongs to segment {SEGMENT_ID}"):
        decode_manifest(golden, SegmentId.random())


@pytest.mark.parametrize("golden", [GOLDEN_SEGMENT, GOLDEN_TOMBSTONE], ids=["segment", "tombstone"])
def test_newer_version_is_refused_by_name(golden: bytes) -> None:
    with pytest.raises(NotOffered, match=r"version 2, of a newer release; this one reads 1"):
        decode_manifest(changed(golden, version=2, kind="unheard of"), SEGMENT_ID)


def test_digest_is_stored_and_is_that_of_the_content() -> None:
    content = make_data().manifest(make_metadata())
    assert json.loads(SegmentManifestV1(content).to_bytes())["upload_digest"] == content.upload_digest
