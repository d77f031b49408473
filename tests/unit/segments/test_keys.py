from __future__ import annotations

import pytest

from support.segments import make_metadata
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_server.segments.keys import SegmentKeys

METADATA = make_metadata(topic_id=TopicId(bytes(15) + b"\1"), segment_id=SegmentId(bytes(15) + b"\2"), partition=7)
DIGEST = "000102030405060708090a0b0c0d0e0f"
SEGMENT = "AAAAAAAAAAAAAAAAAAAAAQ_7/AAAAAAAAAAAAAAAAAAAAAg"


@pytest.mark.parametrize(("prefix", "root"), [("", SEGMENT), ("tiered/here", f"tiered/here/{SEGMENT}")])
def test_keys_are_laid_out_as_stored_for_ever(prefix: str, root: str) -> None:
    keys = SegmentKeys.of(METADATA, prefix=prefix)
    assert keys.root == root
    assert keys.manifest == f"{root}/manifest.json"
    assert keys.upload_marker(DIGEST, "ab12") == f"{root}/{DIGEST}/upload-ab12.json"
    assert {keys.file(DIGEST, file) for file in SegmentFile} == {
        f"{root}/{DIGEST}/{name}"
        for name in ("log", "offset_index", "time_index", "producer_snapshot", "leader_epoch", "txn_index")
    }
