from __future__ import annotations

import logging

import pytest

from tiergate_client import SegmentId
from tiergate_client._direct_answer import StoreOutOfReach
from tiergate_client._direct_detours import Detours
from tiergate_client.errors import NotOffered

ONE, OTHER = SegmentId.random(), SegmentId.random()


def test_store_out_of_reach_is_left_alone_for_a_minute_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 1000.0
    detours = Detours(monotonic_s=lambda: now_s)
    assert not detours.holds(ONE)
    with caplog.at_level(logging.WARNING):
        detours.begin(ONE, StoreOutOfReach("cannot connect to the store at s3:9000"))
    assert detours.holds(ONE)
    assert detours.holds(OTHER)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot connect to the store at s3:9000; reading through the service for 60 s"
    ]
    now_s += 60
    assert not detours.holds(ONE)


def test_store_without_urls_concerns_the_segments_that_it_holds() -> None:
    now_s = 1000.0
    detours = Detours(monotonic_s=lambda: now_s)
    detours.begin(ONE, NotOffered("the store gives no URLs"))
    assert detours.holds(ONE)
    assert not detours.holds(OTHER)
    now_s += 60
    assert not detours.holds(ONE)


def test_number_of_remembered_segments_is_bounded() -> None:
    detours = Detours(monotonic_s=lambda: 1000.0)
    segments = [SegmentId.random() for _ in range(1025)]
    for segment_id in segments:
        detours.begin(segment_id, NotOffered("the store gives no URLs"))
    assert detours.holds(segments[-1])
    assert sum(map(detours.holds, segments)) <= 1024
