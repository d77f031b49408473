from __future__ import annotations

from contextlib import ExitStack

import pytest

from support.segments import make_data, make_metadata
from tiergate_client.errors import LimitExceeded
from tiergate_client.segment_files import SegmentManifest
from tiergate_server.rpc.upload_shares import UploadShares


def header(topic: str = "orders", *, index_bytes: int = 100) -> SegmentManifest:
    data = make_data(log_bytes=10, index_bytes=index_bytes, with_producer_snapshot=False)
    return data.manifest(make_metadata(topic=topic))


def test_topic_leaves_a_quarter_of_the_uploads_to_others() -> None:
    shares = UploadShares(uploads=8, index_bytes=10_000)
    with ExitStack() as running:
        for _ in range(6):
            running.enter_context(shares.taken_by(header()))
        with pytest.raises(LimitExceeded) as caught:
            running.enter_context(shares.taken_by(header()))
        assert caught.value.details == {"limit": "topic_uploads", "value": "6"}
        assert caught.value.retry_after_ms is not None
        running.enter_context(shares.taken_by(header("payments")))
    with shares.taken_by(header()):
        pass


def test_indexes_of_all_uploads_together_are_bounded() -> None:
    shares = UploadShares(uploads=8, index_bytes=500)
    with shares.taken_by(header(index_bytes=100)), shares.taken_by(header("payments", index_bytes=100)):
        with pytest.raises(LimitExceeded) as caught, shares.taken_by(header("third", index_bytes=100)):
            pass
        assert caught.value.details == {"limit": "upload_index_bytes", "value": "500"}
    with shares.taken_by(header(index_bytes=100)):
        pass


def test_single_upload_is_let_in_however_large_its_indexes_are() -> None:
    shares = UploadShares(uploads=1, index_bytes=1)
    for _ in range(2):
        with shares.taken_by(header(index_bytes=1000)):
            pass
