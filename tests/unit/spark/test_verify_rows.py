"""The row that a verification makes of a segment, on the real domain in this process, also when a plane was away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.in_process_tiergate import InProcessTiergate, in_process_tiergate
from support.tiering import tier_segments
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import StorageUnavailable, Unavailable
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.options import Service
from tiergate_spark.pipelines import outage_patience, verify_rows
from tiergate_spark.pipelines.verify_rows import segment_row

_SERVICE = Service("metadata.test:7400", None, "auto")
_FINDINGS = -1


@pytest.fixture
def tiergate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessTiergate]:
    with in_process_tiergate(tmp_path / "objects") as running:
        monkeypatch.setattr(verify_rows, "worker_client", lambda _: running)
        yield running


@pytest.fixture
def segment(tiergate: InProcessTiergate, tmp_path: Path) -> RemoteLogSegmentMetadata:
    return tier_segments(tiergate, write_sample(tmp_path, segments=2, segment_bytes=32 * 1024).directory)[0]


def row_of(segment: RemoteLogSegmentMetadata) -> tuple[Any, ...]:
    return segment_row(metadata_to_proto(segment).SerializeToString(), _SERVICE)


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str) -> None:
    real = getattr(owner, method)

    def fail(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(owner, method, real)
        raise Unavailable("the plane does not answer")

    monkeypatch.setattr(owner, method, fail)


@pytest.mark.parametrize("method", ["get_manifest", "fetch_indexes", "fetch_segment"])
def test_outage_in_the_middle_of_a_segment_costs_a_retry(
    tiergate: InProcessTiergate,
    segment: RemoteLogSegmentMetadata,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    """Spark has one attempt for a task when it runs on threads."""
    before = row_of(segment)
    assert before[_FINDINGS] == []
    fail_once(monkeypatch, tiergate.storage, method)
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        assert row_of(segment) == before
    assert caplog.messages == [
        f"segment {segment.segment_id}: the plane does not answer; it is tried again for up to 30 seconds"
    ]


def test_segment_that_is_not_stored_is_damage_when_the_metadata_plane_is_back(
    tiergate: InProcessTiergate, segment: RemoteLogSegmentMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiergate.storage.delete_segment(segment)
    fail_once(monkeypatch, tiergate.metadata, "get_segment")
    ((_, _, _, kind, severity, _),) = row_of(segment)[_FINDINGS]
    assert (kind, severity) == ("manifest_missing", "damage")


def test_outage_that_does_not_end_fails_the_task(
    tiergate: InProcessTiergate, segment: RemoteLogSegmentMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise StorageUnavailable("the store does not answer")

    monkeypatch.setattr(outage_patience, "PATIENCE_S", 0.1)
    monkeypatch.setattr(tiergate.storage, "get_manifest", fail)
    with pytest.raises(StorageUnavailable):
        row_of(segment)
