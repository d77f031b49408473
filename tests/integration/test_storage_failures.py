"""What a running segment plane answers when its disk fails it, and what it counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from crc32c import crc32c

from support.metrics import metric
from support.planes import PlaneProcess, running_planes
from support.segments import make_data, make_metadata
from support.wire import TIMEOUT_S, channel_to, refused, send, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.status import from_rpc_error
from tiergate_client.values import RemoteLogSegmentMetadata

UNAVAILABLE, DATA_LOSS = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS
DATA = make_data(log_bytes=2 * BLOCK_BYTES + 100)
TIME_INDEX = types_pb2.SEGMENT_FILE_TIME_INDEX


@dataclass(frozen=True)
class SegmentPlane:
    """A plane of this module's own, whose files may be damaged."""

    process: PlaneProcess
    directory: Path
    channel: grpc.Channel

    @property
    def stub(self) -> storage_pb2_grpc.RemoteStorageServiceStub:
        return storage_pb2_grpc.RemoteStorageServiceStub(self.channel)

    def files_of(self, metadata: RemoteLogSegmentMetadata) -> Path:
        return self.directory / f"{metadata.partition.topic_id}_0" / str(metadata.segment_id)

    def copy(self, metadata: RemoteLogSegmentMetadata) -> object:
        return send(self.channel, upload_messages(metadata, DATA))

    def fetch_segment(self, metadata: RemoteLogSegmentMetadata) -> object:
        request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
        return list(self.stub.FetchSegment(request, timeout=TIMEOUT_S))

    def fetch_index(self, metadata: RemoteLogSegmentMetadata) -> object:
        request = pb.FetchIndexRequest(metadata=metadata_to_proto(metadata), file=TIME_INDEX)
        return self.stub.FetchIndex(request, timeout=TIMEOUT_S)

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> object:
        return self.stub.GetSegmentManifest(
            pb.GetSegmentManifestRequest(metadata=metadata_to_proto(metadata)), timeout=TIMEOUT_S
        )

    def delete(self, metadata: RemoteLogSegmentMetadata) -> object:
        return self.stub.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(metadata)), timeout=TIMEOUT_S)


Call = Callable[[SegmentPlane, RemoteLogSegmentMetadata], object]
READS = [SegmentPlane.fetch_segment, SegmentPlane.fetch_index, SegmentPlane.get_manifest]
CALLS = [*READS, SegmentPlane.copy, SegmentPlane.delete]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegmentPlane]:
    directory = tmp_path_factory.mktemp("planes")
    with (
        running_planes(directory, segments__metrics="127.0.0.1:0", segments__limits__chunk_bytes="1048576") as planes,
        channel_to(planes.segments.address) as channel,
    ):
        yield SegmentPlane(planes.segments, directory / "segments", channel)


@pytest.fixture
def stored(plane: SegmentPlane) -> RemoteLogSegmentMetadata:
    metadata = make_metadata()
    plane.copy(metadata)
    return metadata


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("pattern", "damaged_at", "call", "position"),
    [
        ("*/log", BLOCK_BYTES + 7, SegmentPlane.fetch_segment, BLOCK_BYTES),
        ("*/time_index", 100, SegmentPlane.fetch_index, 0),
        *(("manifest.json", 40, call, 0) for call in READS),
        ("manifest.json", 40, SegmentPlane.copy, 0),
    ],
)
def test_flipped_byte_on_disk_is_data_loss_that_says_where(
    plane: SegmentPlane, stored: RemoteLogSegmentMetadata, pattern: str, damaged_at: int, call: Call, position: int
) -> None:
    (path,) = plane.files_of(stored).glob(pattern)
    flip(path, damaged_at)
    details = refused(lambda: call(plane, stored), DATA_LOSS, "CHECKSUM_MISMATCH")
    assert details == {"segment": str(stored.segment_id), "file": path.stem, "position": str(position)}
    flip(path, damaged_at)
    call(plane, stored)


@pytest.mark.parametrize("call", CALLS)
def test_store_that_cannot_be_read_is_unavailable_and_back_when_it_can(
    plane: SegmentPlane, stored: RemoteLogSegmentMetadata, call: Call
) -> None:
    manifest = plane.files_of(stored) / "manifest.json"
    kept = manifest.rename(manifest.with_name("kept"))
    manifest.symlink_to(manifest)  # opening it fails, also for a process that may do everything
    with pytest.raises(grpc.RpcError) as failure:
        call(plane, stored)
    assert failure.value.code() is UNAVAILABLE
    assert from_rpc_error(failure.value).retry_after_ms
    refused(lambda: call(plane, stored), UNAVAILABLE, "STORAGE_UNAVAILABLE")
    manifest.unlink()
    kept.rename(manifest)
    call(plane, stored)


def test_store_that_cannot_be_written_is_unavailable_and_back_when_it_can(plane: SegmentPlane) -> None:
    metadata = make_metadata()
    uploads = plane.directory / ".uploads"
    kept = uploads.rename(uploads.with_name(".kept"))
    uploads.write_bytes(b"a file where the directory of uploads should be")
    refused(lambda: plane.copy(metadata), UNAVAILABLE, "STORAGE_UNAVAILABLE")
    uploads.unlink()
    kept.rename(uploads)
    plane.copy(metadata)


@pytest.mark.parametrize("call", READS)
def test_manifest_of_a_newer_release_is_not_offered(
    plane: SegmentPlane, stored: RemoteLogSegmentMetadata, call: Call
) -> None:
    manifest = plane.files_of(stored) / "manifest.json"
    fields = json.loads(manifest.read_bytes()) | {"version": 2}
    del fields["crc32c"]
    rest = json.dumps(fields, separators=(",", ":")).encode()[1:]
    manifest.write_bytes(b'{"crc32c":"%08x",' % crc32c(rest) + rest)
    assert refused(lambda: call(plane, stored), grpc.StatusCode.UNIMPLEMENTED, "") == {}


def test_received_and_sent_bytes_are_counted(plane: SegmentPlane) -> None:
    def counted() -> tuple[float, float]:
        names = ("tiergate_segments_received_bytes_total", "tiergate_segments_sent_bytes_total")
        received, sent = (metric(plane.process, name) for name in names)
        return received, sent

    metadata = make_metadata()
    received, sent = counted()
    plane.copy(metadata)
    announced = DATA.manifest(metadata).files
    assert counted() == (received + sum(file.size_bytes for file in announced.values()), sent)
    plane.fetch_segment(metadata)
    plane.fetch_index(metadata)
    received, sent = counted()[0], sent + 2 * BLOCK_BYTES + 100 + 120
    assert counted() == (received, sent)
