from __future__ import annotations

from collections.abc import Collection

import pytest

from support.segments import make_data, make_metadata
from tiergate_client import RemoteLogSegmentMetadata, ResolvedSegment, SegmentFile
from tiergate_client._direct_resolutions import Resolutions
from tiergate_client.errors import SegmentNotFound

LOG = SegmentFile.LOG


class Service:
    """Answers with URLs that are valid for a while, and counts how often it was asked."""

    def __init__(self, valid_s: float = 900) -> None:
        self.now_s = 100.0
        self.valid_s = valid_s
        self.asked = 0
        self.is_gone = False
        self.resolutions = Resolutions(self._resolve, monotonic_s=lambda: self.now_s)

    def _resolve(self, metadata: RemoteLogSegmentMetadata, *, files: Collection[SegmentFile]) -> ResolvedSegment:
        self.asked += 1
        if self.is_gone:
            raise SegmentNotFound("gone")
        manifest = make_data(log_bytes=10).manifest(metadata)
        urls = {file: f"http://store/{file.value}" for file in files or manifest.files}
        return ResolvedSegment(manifest, urls, 0, round(self.valid_s * 1000))


def test_answer_is_kept_for_five_seconds() -> None:
    service, metadata = Service(), make_metadata()
    first = service.resolutions.of(metadata, LOG)
    service.now_s += 4.9
    assert service.resolutions.of(metadata, LOG) is first
    service.now_s += 0.2
    assert service.resolutions.of(metadata, LOG) is not first
    assert service.asked == 2


@pytest.mark.parametrize(("valid_s", "usable_s"), [(900.0, 870.0), (2.0, 1.5), (60.0, 45.0)])
def test_urls_are_renewed_a_while_before_they_expire(valid_s: float, usable_s: float) -> None:
    service = Service(valid_s)
    resolution = service.resolutions.of(make_metadata(), LOG)
    service.now_s += usable_s - 0.01
    assert service.resolutions.is_usable(resolution)
    service.now_s += 0.02
    assert not service.resolutions.is_usable(resolution)


def test_answer_is_not_kept_beyond_the_life_of_its_urls() -> None:
    service, metadata = Service(valid_s=2), make_metadata()
    service.resolutions.of(metadata, LOG)
    service.now_s += 1.6
    service.resolutions.of(metadata, LOG)
    assert service.asked == 2


def test_forgotten_and_failed_answers_are_not_kept() -> None:
    service, metadata = Service(), make_metadata()
    service.resolutions.of(metadata, LOG)
    service.resolutions.forget(metadata.segment_id)
    service.is_gone = True
    with pytest.raises(SegmentNotFound):
        service.resolutions.of(metadata, LOG)
    service.is_gone = False
    kept = service.resolutions.of(metadata, LOG)
    service.is_gone = True
    with pytest.raises(SegmentNotFound):
        service.resolutions.renewed(metadata, LOG)
    with pytest.raises(SegmentNotFound):
        service.resolutions.of(kept.segment.manifest.metadata, LOG)


def test_number_of_kept_answers_is_bounded() -> None:
    service = Service()
    segments = [make_metadata() for _ in range(65)]
    for metadata in segments:
        service.resolutions.of(metadata, LOG)
    service.resolutions.of(segments[-1], LOG)
    assert service.asked == 65
    service.resolutions.of(segments[0], LOG)
    assert service.asked == 66


def test_printed_resolution_does_not_hold_its_urls() -> None:
    service = Service()
    resolution = service.resolutions.of(make_metadata(), LOG)
    assert "http://store" in resolution.segment.urls[LOG]
    assert "http://store" not in f"{resolution} {resolution!r} {resolution.segment}"


def test_log_is_asked_for_alone_and_an_index_with_all_the_others() -> None:
    service, metadata = Service(), make_metadata()
    assert service.resolutions.of(metadata, LOG).segment.urls.keys() == {LOG}
    whole = service.resolutions.of(metadata, SegmentFile.OFFSET_INDEX)
    assert whole.segment.urls.keys() == whole.segment.manifest.files.keys()
    for file in SegmentFile:  # also the one that the segment does not have
        assert service.resolutions.of(metadata, file) is whole
    assert SegmentFile.TXN_INDEX not in whole.segment.urls
    assert service.asked == 2
