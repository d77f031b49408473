"""Reads past the service: what happens when URLs expire, connections break, stored bytes change, and processes fork."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crc32c import crc32c

from support.past_the_service import (
    LOG_BYTES,
    MIB,
    PassableService,
    StoredSegment,
    passable_service,
    recorded_service_reads,
)
from support.planes import Planes
from support.s3_server import S3Server, s3_environment
from support.segments import make_data, make_metadata, read_back
from support.waiting import wait_until
from tiergate_client import SegmentFile, Tiergate, connect
from tiergate_client._direct_storage import DirectStorage
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidField,
    NotOffered,
    SegmentNotFound,
    StoredDataCorrupt,
)
from tiergate_server.cli.application import run

CUT_AFTER_BYTES = 3 * MIB + 1000


@pytest.fixture(scope="module")
def service(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PassableService]:
    """One for all tests that leave it as it is."""
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        with passable_service(tmp_path_factory.mktemp("planes"), s3.new_bucket()) as service:
            yield service


@pytest.fixture
def segment(service: PassableService) -> StoredSegment:
    return service.stored()


@pytest.fixture
def direct(service: PassableService) -> Iterator[Tiergate]:
    with connect(service.planes.target, timeout_s=10, access="direct") as tiergate:
        yield tiergate


@pytest.fixture
def service_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return recorded_service_reads(monkeypatch)


def is_refused(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()  # noqa: S310 (made by our own store)
    except urllib.error.HTTPError as refusal:
        return refusal.code == 403
    return False


def test_service_says_that_it_can_be_passed_by(direct: Tiergate) -> None:
    info = direct.server_info("segments")
    assert "direct" in info.features
    assert info.limits["url_seconds"] == 900


def test_store_of_directories_says_that_it_cannot(planes: Planes) -> None:
    metadata, data = make_metadata(), make_data()
    with connect(planes.target, access="direct") as tiergate:
        assert "direct" not in tiergate.server_info("segments").features
        tiergate.storage.copy_segment(metadata, data)
        with pytest.raises(NotOffered):
            tiergate.storage.fetch_segment(metadata)
        with pytest.raises(NotOffered):
            tiergate.storage.fetch_index(metadata, SegmentFile.TIME_INDEX)
    with connect(planes.target, access="auto") as tiergate:
        assert read_back(tiergate.storage, metadata) == data


def test_unknown_access_is_refused() -> None:
    with pytest.raises(InvalidField, match="service, direct, auto"):
        connect("127.0.0.1:1", access="sideways")  # type: ignore[arg-type]


def test_command_gets_a_log_past_the_service(
    service: PassableService, segment: StoredSegment, service_reads: list[int], tmp_path: Path
) -> None:
    with connect(service.planes.target) as tiergate:
        tiergate.metadata.add_segment(segment.metadata)
    get = ["--target", service.planes.target, "get", str(segment.metadata.segment_id), "-o", str(tmp_path / "log")]
    assert run([*get, "--access", "direct"]) == 0
    assert (tmp_path / "log").read_bytes() == segment.log
    assert service_reads == []
    assert run(get) == 0
    assert service_reads == [0]


def test_connection_is_kept_for_the_next_read(
    service: PassableService, segment: StoredSegment, direct: Tiergate
) -> None:
    before = service.proxy.connections
    for _ in range(3):
        assert read_back(direct.storage, segment.metadata) == segment.data
    assert service.proxy.connections == before + 1


def test_pieces_that_the_caller_keeps_are_not_overwritten(segment: StoredSegment, direct: Tiergate) -> None:
    with direct.storage.fetch_segment(segment.metadata) as stream:
        kept = list(stream)
    assert b"".join(kept) == segment.log


def test_threads_share_a_client(segment: StoredSegment, direct: Tiergate) -> None:
    def is_read(offset: int) -> bool:
        with direct.storage.fetch_segment(segment.metadata, offset=offset, length=2 * MIB) as stream:
            return stream.read() == segment.log[offset : offset + 2 * MIB]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_read, range(0, LOG_BYTES, MIB // 3)))


@pytest.mark.parametrize("position", [0, 5 * MIB + 3, LOG_BYTES - 1])
def test_flipped_bit_of_a_log_is_corruption_and_never_data(
    segment: StoredSegment, direct: Tiergate, position: int
) -> None:
    def flip(stored: bytearray) -> None:
        stored[position] ^= 4

    segment.change(SegmentFile.LOG, flip)
    received = bytearray()

    def read_all() -> None:
        with direct.storage.fetch_segment(segment.metadata, offset=1) as stream:
            for piece in stream:
                received.extend(piece)

    with pytest.raises(StoredDataCorrupt) as caught:
        read_all()
    damaged = position // MIB * MIB
    assert received == segment.log[1:damaged]
    assert caught.value.details == {
        "segment": str(segment.metadata.segment_id),
        "file": "log",
        "position": str(damaged),
    }


def test_flipped_bit_beside_the_range_in_the_same_block_is_corruption(segment: StoredSegment, direct: Tiergate) -> None:
    def flip(stored: bytearray) -> None:
        stored[2 * MIB + 500] ^= 1

    segment.change(SegmentFile.LOG, flip)
    with pytest.raises(StoredDataCorrupt):
        direct.storage.fetch_segment(segment.metadata, offset=2 * MIB, length=10)
    with direct.storage.fetch_segment(segment.metadata, offset=3 * MIB, length=10) as stream:
        assert stream.read() == segment.log[3 * MIB : 3 * MIB + 10]


@pytest.mark.parametrize(
    "change",
    [lambda stored: stored.reverse(), lambda stored: stored.pop(), lambda stored: stored.clear()],
    ids=["reversed", "one byte less", "emptied"],
)
@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.TXN_INDEX])
def test_file_that_is_not_what_was_copied_is_corruption(
    segment: StoredSegment, direct: Tiergate, file: SegmentFile, change: Callable[[bytearray], object]
) -> None:
    segment.change(file, change)
    with pytest.raises(StoredDataCorrupt):
        read_back(direct.storage, segment.metadata)


@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.TXN_INDEX])
def test_file_that_is_missing_from_a_segment_is_corruption(
    segment: StoredSegment, direct: Tiergate, file: SegmentFile
) -> None:
    segment.remove(file)
    with pytest.raises(StoredDataCorrupt, match="is missing"):
        read_back(direct.storage, segment.metadata)


def test_segment_that_another_client_deleted_is_not_found_though_it_was_read_a_moment_ago(
    service: PassableService, segment: StoredSegment, direct: Tiergate
) -> None:
    assert read_back(direct.storage, segment.metadata) == segment.data
    with connect(service.planes.target) as other:
        other.storage.delete_segment(segment.metadata)
    with pytest.raises(SegmentNotFound):
        direct.storage.fetch_segment(segment.metadata)
    with pytest.raises(SegmentNotFound):
        direct.storage.fetch_index(segment.metadata, SegmentFile.TXN_INDEX)


def test_closed_stream_gives_nothing_more(segment: StoredSegment, direct: Tiergate) -> None:
    stream = direct.storage.fetch_segment(segment.metadata)
    pieces = iter(stream)
    next(pieces)
    stream.close()
    with pytest.raises(Cancelled):
        next(pieces)


def test_stream_that_takes_longer_than_it_may_is_ended(service: PassableService, segment: StoredSegment) -> None:
    with (
        connect(service.planes.target, access="direct", stream_timeout_s=0) as tiergate,
        pytest.raises(DeadlineExceeded),
    ):
        tiergate.storage.fetch_segment(segment.metadata)


# A program of its own: the tests' process has threads and channels that a fork must not meet.
FORKING = """
import os, sys
from crc32c import crc32c
from tiergate_client import SegmentId, connect
from tiergate_client.conversions import metadata_from_proto
from tiergate.v1.types_pb2 import RemoteLogSegmentMetadata

metadata = metadata_from_proto(RemoteLogSegmentMetadata.FromString(bytes.fromhex(sys.argv[2])), "")
tiergate = connect(sys.argv[1], access="direct", timeout_s=10)
with tiergate.storage.fetch_segment(metadata, length=1) as stream:  # leaves a connection for the next one
    stream.read()
begun = iter(tiergate.storage.fetch_segment(metadata))
first = bytes(next(begun))

def checksums():
    with tiergate.storage.fetch_segment(metadata) as stream:
        return crc32c(stream.read()), crc32c(first + b"".join(begun))

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, repr(checksums()).encode())
    os._exit(0)
told = os.read(reader, 1000).decode()  # the child has read everything, before the parent goes on
print(os.waitpid(child, 0)[1], told, checksums())
"""


def test_client_is_safe_across_a_fork_also_with_a_stream_that_has_begun(
    service: PassableService, segment: StoredSegment
) -> None:
    metadata = metadata_to_proto(segment.metadata).SerializeToString().hex()
    told = subprocess.run(
        [sys.executable, "-c", FORKING, service.planes.target, metadata],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    expected = crc32c(segment.log)
    assert told.strip() == f"0 {(expected, expected)} {(expected, expected)}"


@pytest.fixture(scope="module")
def cut(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PassableService]:
    """A way past the service on which every connection breaks, with URLs that are valid for a second."""
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        with passable_service(
            tmp_path_factory.mktemp("cut"),
            s3.new_bucket(),
            cut_after_bytes=CUT_AFTER_BYTES,
            segments__limits__url_seconds="1",
        ) as service:
            yield service


def test_broken_connections_are_resumed_at_the_own_position(cut: PassableService) -> None:
    segment, cuts_before = cut.stored(), cut.proxy.cuts
    with (
        connect(cut.planes.target, access="direct") as tiergate,
        tiergate.storage.fetch_segment(segment.metadata, offset=5) as stream,
    ):
        assert stream.read() == segment.log[5:]
    assert cut.proxy.cuts - cuts_before == LOG_BYTES // CUT_AFTER_BYTES


@pytest.mark.parametrize("clock_stands_still", [False, True], ids=["renewed in time", "renewed when refused"])
def test_urls_that_expire_in_mid_stream_are_renewed(
    cut: PassableService, clock_stands_still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = cut.stored()
    with connect(cut.planes.target, access="direct") as tiergate:
        assert isinstance(tiergate.storage, DirectStorage)
        if clock_stands_still:
            monkeypatch.setattr(tiergate.storage._resolutions, "_monotonic_s", lambda: 0.0)
        received = bytearray()
        with tiergate.storage.fetch_segment(segment.metadata) as stream:
            pieces = iter(stream)
            received += next(pieces)
            later = tiergate.storage.resolve_segment(segment.metadata)
            wait_until(lambda: is_refused(later.urls[SegmentFile.LOG]))
            for piece in pieces:
                received += piece
        assert received == segment.log


def test_segment_that_is_deleted_in_mid_stream_is_not_found(cut: PassableService) -> None:
    segment = cut.stored()
    with (
        connect(cut.planes.target, access="direct") as tiergate,
        tiergate.storage.fetch_segment(segment.metadata) as stream,
    ):
        next(iter(stream))
        with connect(cut.planes.target) as other:
            other.storage.delete_segment(segment.metadata)
        with pytest.raises(SegmentNotFound):
            stream.read()
