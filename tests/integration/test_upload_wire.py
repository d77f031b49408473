"""GetUpload, ListUploads and AbortUpload as storage.proto describes them, by a client that has only that."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from support.planes import Planes
from support.segments import make_data, make_metadata
from support.waiting import wait_until
from support.wire import TIMEOUT_S, channel_to, refused, send, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client.conversions import manifest_to_proto, metadata_to_proto, partition_to_proto
from tiergate_client.ids import TopicId
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.values import RemoteLogSegmentMetadata

INVALID, CONFLICT = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
LOG = types_pb2.SEGMENT_FILE_LOG
DATA = make_data(log_bytes=3 * BLOCK_BYTES + 100)
OTHER = make_data(log_bytes=3 * BLOCK_BYTES + 100, seed=1)

Stub = storage_pb2_grpc.RemoteStorageServiceStub


@pytest.fixture
def channel(planes: Planes) -> Iterator[grpc.Channel]:
    with channel_to(planes.segments.address) as channel:
        yield channel


@pytest.fixture
def storage(channel: grpc.Channel) -> Stub:
    return Stub(channel)


def get_upload(storage: Stub, metadata: RemoteLogSegmentMetadata) -> pb.GetUploadResponse:
    request = pb.GetUploadRequest(header=manifest_to_proto(DATA.manifest(metadata)))
    return storage.GetUpload(request, timeout=TIMEOUT_S)


def committed(storage: Stub, metadata: RemoteLogSegmentMetadata) -> int:
    return next(it.committed_bytes for it in get_upload(storage, metadata).files if it.file == LOG)


def break_off(channel: grpc.Channel, storage: Stub, metadata: RemoteLogSegmentMetadata) -> None:
    """Sends two blocks of the log, then cancels when they are kept."""
    messages = upload_messages(metadata, DATA)
    first_log = next(at for at, it in enumerate(messages) if it.HasField("chunk") and it.chunk.file == LOG)

    def until_kept() -> Iterator[pb.CopySegmentRequest]:
        yield from messages[: first_log + 2]
        wait_until(lambda: committed(storage, metadata) == 2 * BLOCK_BYTES)

    with pytest.raises(grpc.RpcError):
        Stub(channel).CopySegment(until_kept(), timeout=TIMEOUT_S)


def list_uploads(
    storage: Stub, metadata: RemoteLogSegmentMetadata, *, page_size: int = 0, page_token: bytes = b""
) -> pb.ListUploadsResponse:
    request = pb.ListUploadsRequest(
        partition=partition_to_proto(metadata.partition), page_size=page_size, page_token=page_token
    )
    return storage.ListUploads(request, timeout=TIMEOUT_S)


def test_upload_goes_on_where_it_was_broken_off_and_may_send_bytes_again(channel: grpc.Channel, storage: Stub) -> None:
    metadata = make_metadata()
    break_off(channel, storage, metadata)
    messages = upload_messages(metadata, DATA)
    logs = [at for at, it in enumerate(messages) if it.HasField("chunk") and it.chunk.file == LOG]
    del messages[logs[0]]  # the second block is sent again, the first is not
    answer = send(channel, messages)
    assert get_upload(storage, metadata).custom_metadata == answer.custom_metadata
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
    assert b"".join(chunk.data for chunk in storage.FetchSegment(request, timeout=TIMEOUT_S)) == DATA.log


def test_gap_behind_what_is_kept_names_where_to_continue(channel: grpc.Channel, storage: Stub) -> None:
    metadata = make_metadata()
    break_off(channel, storage, metadata)
    messages = upload_messages(metadata, DATA)
    logs = [at for at, it in enumerate(messages) if it.HasField("chunk") and it.chunk.file == LOG]
    del messages[logs[0] : logs[2] + 1]
    details = refused(lambda: send(channel, messages), grpc.StatusCode.OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")
    assert details == {"committed_bytes": str(2 * BLOCK_BYTES)}


def test_upload_of_a_taken_or_spent_id_is_a_conflict(channel: grpc.Channel, storage: Stub) -> None:
    complete, deleted, aborted = make_metadata(), make_metadata(), make_metadata()
    for metadata in (complete, deleted):
        send(channel, upload_messages(metadata, OTHER))
    storage.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(deleted)), timeout=TIMEOUT_S)
    break_off(channel, storage, aborted)
    storage.AbortUpload(pb.AbortUploadRequest(metadata=metadata_to_proto(aborted)), timeout=TIMEOUT_S)
    for metadata in (complete, deleted, aborted):
        refused(lambda metadata=metadata: get_upload(storage, metadata), CONFLICT, "SEGMENT_CONFLICT")  # type: ignore[misc]
        messages = upload_messages(metadata, DATA)
        refused(lambda messages=messages: send(channel, messages), CONFLICT, "SEGMENT_CONFLICT")  # type: ignore[misc]


def test_malformed_header_is_refused_by_its_field(storage: Stub) -> None:
    header = manifest_to_proto(DATA.manifest(make_metadata()))
    del header.files[0]
    refused(lambda: storage.GetUpload(pb.GetUploadRequest(header=header), timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")


def test_uploads_are_listed_in_pages_that_any_call_continues(channel: grpc.Channel, storage: Stub) -> None:
    topic_id = TopicId.random()
    begun = [make_metadata(topic_id=topic_id) for _ in range(3)]
    for metadata in begun:
        break_off(channel, storage, metadata)
    listed: list[pb.Upload] = []
    page_token = b""
    while True:
        page = list_uploads(storage, begun[0], page_size=2, page_token=page_token)
        listed += page.uploads
        page_token = page.next_page_token
        if not page_token:
            break
    assert [it.segment_id for it in listed] == [
        it.segment_id.raw for it in sorted(begun, key=lambda it: str(it.segment_id))
    ]
    for upload in listed:
        assert (upload.log_committed_bytes, upload.log_size_bytes) == (2 * BLOCK_BYTES, 3 * BLOCK_BYTES + 100)
        assert upload.store == "default"
        assert len(upload.upload_digest) == 16
        assert upload.started_at_ms > 1_700_000_000_000


def test_listing_of_uploads_refuses_foreign_tokens_and_huge_pages(storage: Stub) -> None:
    metadata = make_metadata()
    refused(lambda: list_uploads(storage, metadata, page_token=b"none of ours"), INVALID, "INVALID_FIELD")
    refused(lambda: list_uploads(storage, metadata, page_size=-1), INVALID, "INVALID_FIELD")
    details = refused(lambda: list_uploads(storage, metadata, page_size=1001), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "page_size", "value": "1000"}
    refused(lambda: storage.ListUploads(pb.ListUploadsRequest(), timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")


def test_abort_ends_an_upload_and_leaves_a_complete_segment(channel: grpc.Channel, storage: Stub) -> None:
    half, complete = make_metadata(), make_metadata()
    break_off(channel, storage, half)
    send(channel, upload_messages(complete, DATA))

    def abort(metadata: RemoteLogSegmentMetadata) -> bool:
        request = pb.AbortUploadRequest(metadata=metadata_to_proto(metadata))
        return storage.AbortUpload(request, timeout=TIMEOUT_S).is_complete

    assert [abort(half), abort(half), abort(complete), abort(make_metadata())] == [False, False, True, False]
    assert not list_uploads(storage, half).uploads
    assert get_upload(storage, complete).HasField("custom_metadata")
