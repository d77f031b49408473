"""Reads past the service, while the service itself is away: it has to say where a segment is."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from support.segments import make_metadata
from tiergate_client._channels import Channels
from tiergate_client._direct_storage import DirectStorage
from tiergate_client.errors import SegmentNotFound, TiergateError, Unavailable
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata


class ServiceAway(DirectStorage):
    """Whose service answers the questions for a segment one after another."""

    def __init__(self, *answers: TiergateError, timeout_s: float) -> None:
        super().__init__(
            Channels(), target=lambda: "unused:1", timeout_s=timeout_s, stream_timeout_s=60, falls_back=False
        )
        self.answers = list(answers)

    def resolve_segment(
        self,
        metadata: RemoteLogSegmentMetadata,  # noqa: ARG002
        *,
        valid_s: int = 0,  # noqa: ARG002
        files: Collection[SegmentFile] = (),  # noqa: ARG002
    ) -> ResolvedSegment:
        raise self.answers.pop(0)


def test_service_that_is_away_is_asked_again() -> None:
    storage = ServiceAway(Unavailable("away"), Unavailable("away"), SegmentNotFound("gone"), timeout_s=30)
    with pytest.raises(SegmentNotFound, match="gone"):
        storage.fetch_segment(make_metadata())
    storage.answers = [Unavailable("away"), SegmentNotFound("gone")]
    with pytest.raises(SegmentNotFound, match="gone"):
        storage.fetch_index(make_metadata(), SegmentFile.OFFSET_INDEX)


def test_service_that_stays_away_is_told_when_the_time_is_over() -> None:
    storage = ServiceAway(*[Unavailable("away")] * 100, timeout_s=1)
    with pytest.raises(Unavailable, match="away"):
        storage.fetch_segment(make_metadata())
    assert len(storage.answers) < 99
