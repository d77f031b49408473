"""Reads past the service that give way to reads through it, when the store is out of reach or will not serve."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.past_the_service import LOG_BYTES, MIB, PassableService, passable_service, recorded_service_reads
from support.s3_server import Bucket, S3Server, s3_environment
from support.scripted_s3 import ScriptedS3, scripted_s3
from support.segments import read_back
from tiergate_client import connect
from tiergate_client.errors import StorageUnavailable

CUT_AFTER_BYTES = 3 * MIB + 1000


@pytest.fixture
def service_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return recorded_service_reads(monkeypatch)


def test_stream_goes_on_through_the_service_when_the_store_goes_out_of_reach(
    tmp_path: Path, bucket: Bucket, service_reads: list[int]
) -> None:
    with passable_service(tmp_path, bucket, cut_after_bytes=CUT_AFTER_BYTES) as cut:
        segment = cut.stored()
        received = bytearray()
        with connect(cut.planes.target, access="auto") as tiergate:
            with tiergate.storage.fetch_segment(segment.metadata, offset=7, length=LOG_BYTES - 10) as stream:
                pieces = iter(stream)
                received += next(pieces)
                assert service_reads == []
                cut.proxy.stop()
                for piece in pieces:
                    received += piece
            assert received == segment.log[7:-3]
            assert service_reads == [CUT_AFTER_BYTES // MIB * MIB]
            seen = cut.proxy.connections
            assert read_back(tiergate.storage, segment.metadata) == segment.data
            assert service_reads[1:] == [0]
            assert cut.proxy.connections == seen
        with (
            connect(cut.planes.target, access="direct", timeout_s=1) as tiergate,
            pytest.raises(StorageUnavailable, match="cannot connect to the store"),
        ):
            tiergate.storage.fetch_segment(segment.metadata)


@pytest.fixture(scope="module")
def scripted(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PassableService, ScriptedS3]]:
    """A way past the service that leads to what a test makes of it."""
    with pytest.MonkeyPatch.context() as patch, scripted_s3(500, "InternalError") as script:
        s3_environment(patch)
        directory = tmp_path_factory.mktemp("scripted")
        with passable_service(directory, s3.new_bucket(), public_endpoint_url=script.endpoint_url) as service:
            yield service, script


@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (403, "AccessDenied"), (301, "PermanentRedirect"), (200, "")]
)
def test_store_that_answers_something_else_is_passed_by_in_turn(
    scripted: tuple[PassableService, ScriptedS3], service_reads: list[int], status: int, code: str
) -> None:
    service, script = scripted
    script.answer_with(status, code)
    script.requests.clear()
    segment = service.stored(log_bytes=2 * MIB)
    with connect(service.planes.target, access="auto") as tiergate:
        with tiergate.storage.fetch_segment(segment.metadata, offset=MIB) as stream:
            assert stream.read() == segment.log[MIB:]
        assert len(script.requests) >= 2
        script.requests.clear()
        assert read_back(tiergate.storage, segment.metadata) == segment.data
        assert script.requests == []
    assert service_reads == [MIB, 0]
    with (
        connect(service.planes.target, access="direct", timeout_s=1) as tiergate,
        pytest.raises(StorageUnavailable, match=f"answered {status}"),
    ):
        tiergate.storage.fetch_segment(segment.metadata, offset=MIB)


def test_store_that_never_answers_is_passed_by_in_turn(
    tmp_path: Path, bucket: Bucket, service_reads: list[int]
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        passable_service(
            tmp_path, bucket, public_endpoint_url=f"http://127.0.0.1:{silent.getsockname()[1]}"
        ) as service,
    ):
        segment = service.stored()
        with connect(service.planes.target, access="auto", timeout_s=2) as tiergate:
            assert read_back(tiergate.storage, segment.metadata) == segment.data
    assert service_reads == [0]
