from __future__ import annotations

from support.segments import make_metadata
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_server.segments.keys import SegmentKeys

METADATA = make_metadata(topic_id=TopicId(bytes(15) + b"\1"), segment_id=SegmentId(bytes(15) + b"\2"), partition=7)
DIGEST = "000102030405060708090a0b0c0d0e0f"
SEGMENT = "AAAAAAAAAAAAAAAAAAAAAQ_7/AAAAAAAAAAAAAAAAAAAAAg"


def test_keys_are_laid_out_as_stored_for_ever() -> None:
    keys = SegmentKeys.of(METADATA)
    assert keys.root == SEGMENT
    assert keys.manifest == f"{SEGMENT}/manifest.json"
    assert keys.upload(DIGEST) == f"{SEGMENT}/{DIGEST}/upload.json"
    assert {keys.file(DIGEST, file) for file in SegmentFile} == {
        f"{SEGMENT}/{DIGEST}/{name}"
        for name in ("log", "offset_index", "time_index", "producer_snapshot", "leader_epoch", "txn_index")
    }
