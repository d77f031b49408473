"""Every row of storage.proto's tables, by a client that breaks the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from support.planes import Planes
from support.segments import make_data, make_metadata
from support.wire import TIMEOUT_S, channel_to, chunk_message, refused, send, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.values import RemoteLogSegmentMetadata

INVALID, OUT_OF_RANGE = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE
NOT_FOUND, EXHAUSTED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED
LOG, TXN_INDEX = types_pb2.SEGMENT_FILE_LOG, types_pb2.SEGMENT_FILE_TXN_INDEX

Messages = list[pb.CopySegmentRequest]
DATA = make_data(log_bytes=2 * BLOCK_BYTES + 100)
LOG_BYTES = 2 * BLOCK_BYTES + 100
INDEX_BYTES = 120


@pytest.fixture
def channel(planes: Planes) -> Iterator[grpc.Channel]:
    with channel_to(planes.segments.address) as channel:
        yield channel


@pytest.fixture
def storage(channel: grpc.Channel) -> storage_pb2_grpc.RemoteStorageServiceStub:
    return storage_pb2_grpc.RemoteStorageServiceStub(channel)


@pytest.fixture
def metadata() -> RemoteLogSegmentMetadata:
    return make_metadata()


@pytest.fixture
def upload(metadata: RemoteLogSegmentMetadata) -> Messages:
    return upload_messages(metadata, DATA)


@pytest.fixture
def stored(channel: grpc.Channel, metadata: RemoteLogSegmentMetadata, upload: Messages) -> RemoteLogSegmentMetadata:
    send(channel, upload)
    return metadata


def log_chunks(messages: Messages) -> list[int]:
    return [at for at, message in enumerate(messages) if message.HasField("chunk") and message.chunk.file == LOG]


def drop_header(messages: Messages) -> None:
    del messages[0]


def repeat_header(messages: Messages) -> None:
    messages.insert(1, messages[0])


def drop_finish(messages: Messages) -> None:
    del messages[-1]


def send_nothing(messages: Messages) -> None:
    messages.clear()


def send_an_empty_message(messages: Messages) -> None:
    messages.insert(1, pb.CopySegmentRequest())


def chunk_after_finish(messages: Messages) -> None:
    messages.append(messages[1])


def chunk_of_a_file_not_announced(messages: Messages) -> None:
    messages.insert(1, chunk_message(TXN_INDEX, 0, b"x"))


def chunk_of_no_file(messages: Messages) -> None:
    messages.insert(1, chunk_message(99, 0, b"x"))


def chunk_of_file_unspecified(messages: Messages) -> None:
    messages.insert(1, chunk_message(0, 0, b"x"))


def negative_chunk_offset(messages: Messages) -> None:
    messages[log_chunks(messages)[0]].chunk.offset = -1


def one_byte_too_many(messages: Messages) -> None:
    size = 2 * BLOCK_BYTES + 100
    messages.insert(-1, chunk_message(LOG, size, b"x"))


def last_chunk_missing(messages: Messages) -> None:
    del messages[log_chunks(messages)[-1]]


def index_never_sent(messages: Messages) -> None:
    del messages[1]


def size_announced_wrongly(messages: Messages) -> None:
    for file in messages[0].header.files:
        if file.file == types_pb2.SEGMENT_FILE_TIME_INDEX:
            file.size_bytes += 1


def log_missing_in_header(messages: Messages) -> None:
    keep = [file for file in messages[0].header.files if file.file != LOG]
    del messages[0].header.files[:]
    messages[0].header.files.extend(keep)


def file_named_twice(messages: Messages) -> None:
    messages[0].header.files.append(messages[0].header.files[0])


def unknown_file_in_header(messages: Messages) -> None:
    messages[0].header.files.add(file=77)


def negative_file_size(messages: Messages) -> None:
    messages[0].header.files[0].size_bytes = -1


def wrong_block_count(messages: Messages) -> None:
    messages[0].header.log_block_crc32c.append(1)


def segment_id_of_15_bytes(messages: Messages) -> None:
    messages[0].header.metadata.segment_id = b"x" * 15


def topic_id_of_17_bytes(messages: Messages) -> None:
    messages[0].header.metadata.partition.topic_id = b"x" * 17


def topic_with_a_slash(messages: Messages) -> None:
    messages[0].header.metadata.partition.topic = "../../etc/passwd"


def topic_of_two_dots(messages: Messages) -> None:
    messages[0].header.metadata.partition.topic = ".."


def unknown_state(messages: Messages) -> None:
    messages[0].header.metadata.state = 42  # type: ignore[assignment]


def no_epochs(messages: Messages) -> None:
    del messages[0].header.metadata.segment_leader_epochs[:]


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (drop_header, "message"),
        (repeat_header, "message"),
        (drop_finish, "message"),
        (send_nothing, "message"),
        (send_an_empty_message, "message"),
        (chunk_after_finish, "message"),
        (chunk_of_a_file_not_announced, "chunk.file"),
        (chunk_of_no_file, "chunk.file"),
        (chunk_of_file_unspecified, "chunk.file"),
        (negative_chunk_offset, "chunk.offset"),
        (one_byte_too_many, "chunk.data"),
        (last_chunk_missing, "finish"),
        (index_never_sent, "finish"),
        (size_announced_wrongly, "finish"),
        (log_missing_in_header, "header.files"),
        (file_named_twice, "header.files.file"),
        (unknown_file_in_header, "header.files.file"),
        (negative_file_size, "header.files.size_bytes"),
        (wrong_block_count, "header.log_block_crc32c"),
        (segment_id_of_15_bytes, "header.metadata.segment_id"),
        (topic_id_of_17_bytes, "header.metadata.partition.topic_id"),
        (topic_with_a_slash, "header.metadata.partition.topic"),
        (topic_of_two_dots, "header.metadata.partition.topic"),
        (unknown_state, "header.metadata.state"),
        (no_epochs, "header.metadata.segment_leader_epochs"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_upload_that_breaks_a_rule_is_refused_and_stores_nothing(
    channel: grpc.Channel,
    storage: storage_pb2_grpc.RemoteStorageServiceStub,
    metadata: RemoteLogSegmentMetadata,
    upload: Messages,
    spoil: Callable[[Messages], None],
    field: str,
) -> None:
    spoil(upload)
    assert refused(lambda: send(channel, upload), INVALID, "INVALID_FIELD")["field"] == field
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(metadata))
    refused(lambda: list(storage.FetchSegment(request, timeout=TIMEOUT_S)), NOT_FOUND, "SEGMENT_NOT_FOUND")
    assert send(channel, upload_messages(metadata, DATA)).custom_metadata, "the server goes on, and so does the id"


def wrong_chunk_checksum(messages: Messages) -> None:
    messages[log_chunks(messages)[0]].chunk.crc32c ^= 1


def wrong_block_checksum(messages: Messages) -> None:
    messages[0].header.log_block_crc32c[1] ^= 1


def wrong_log_checksum(messages: Messages) -> None:
    for file in messages[0].header.files:
        if file.file == LOG:
            file.crc32c ^= 1


def wrong_index_checksum(messages: Messages) -> None:
    for file in messages[0].header.files:
        if file.file == types_pb2.SEGMENT_FILE_OFFSET_INDEX:
            file.crc32c ^= 1


@pytest.mark.parametrize(
    "spoil", [wrong_chunk_checksum, wrong_block_checksum, wrong_log_checksum, wrong_index_checksum]
)
def test_upload_with_a_wrong_checksum_is_refused_and_stores_nothing(
    channel: grpc.Channel,
    storage: storage_pb2_grpc.RemoteStorageServiceStub,
    metadata: RemoteLogSegmentMetadata,
    upload: Messages,
    spoil: Callable[[Messages], None],
) -> None:
    spoil(upload)
    refused(lambda: send(channel, upload), INVALID, "CHECKSUM_MISMATCH")
    request = pb.GetSegmentManifestRequest(metadata=metadata_to_proto(metadata))
    refused(lambda: storage.GetSegmentManifest(request, timeout=TIMEOUT_S), NOT_FOUND, "SEGMENT_NOT_FOUND")


def test_urls_of_what_cannot_be_read_past_the_service_are_refused(
    storage: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    def resolve(metadata: RemoteLogSegmentMetadata, **asked: Any) -> Callable[[], object]:
        request = pb.ResolveSegmentRequest(metadata=metadata_to_proto(metadata), **asked)
        return lambda: storage.ResolveSegment(request, timeout=TIMEOUT_S)

    refused(resolve(make_metadata()), NOT_FOUND, "SEGMENT_NOT_FOUND")
    refused(resolve(stored), grpc.StatusCode.UNIMPLEMENTED, "")
    details = refused(resolve(stored, valid_seconds=-1), INVALID, "INVALID_FIELD")
    assert details == {"field": "valid_seconds"}
    for unknown in (types_pb2.SEGMENT_FILE_UNSPECIFIED, 99):
        files = [types_pb2.SEGMENT_FILE_LOG, unknown]
        assert refused(resolve(stored, files=files), INVALID, "INVALID_FIELD") == {"field": "files"}


def test_chunks_out_of_order_name_what_was_received(channel: grpc.Channel, upload: Messages) -> None:
    first, second, *_ = log_chunks(upload)
    upload[first], upload[second] = upload[second], upload[first]
    assert refused(lambda: send(channel, upload), OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")["committed_bytes"] == "0"
    upload[first], upload[second] = upload[second], upload[first]
    del upload[second]
    details = refused(lambda: send(channel, upload), OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")
    assert details["committed_bytes"] == str(BLOCK_BYTES)


def test_chunks_sent_twice_are_skipped(channel: grpc.Channel, upload: Messages) -> None:
    first = log_chunks(upload)[0]
    upload.insert(first + 2, upload[first])
    assert send(channel, upload).custom_metadata


def test_chunk_above_the_limit_names_it(channel: grpc.Channel, upload: Messages) -> None:
    upload.insert(1, chunk_message(LOG, 0, b"x" * (2 * 1024 * 1024 + 1)))
    details = refused(lambda: send(channel, upload), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "chunk_bytes", "value": str(2 * 1024 * 1024)}


def test_index_above_the_limit_names_it(channel: grpc.Channel, upload: Messages) -> None:
    for file in upload[0].header.files:
        if file.file == types_pb2.SEGMENT_FILE_OFFSET_INDEX:
            file.size_bytes = 64 * 1024 * 1024 + 1
    details = refused(lambda: send(channel, upload), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "index_bytes", "value": str(64 * 1024 * 1024)}


def test_message_above_the_transports_limit_is_refused(channel: grpc.Channel, upload: Messages) -> None:
    upload.insert(1, chunk_message(LOG, 0, b"x" * (4 * 1024 * 1024 + 1)))
    with pytest.raises(grpc.RpcError) as failure:
        send(channel, upload)
    assert failure.value.code() is EXHAUSTED


def test_bytes_that_are_no_message_are_refused(channel: grpc.Channel) -> None:
    raw: Any = channel.stream_unary("/tiergate.v1.RemoteStorageService/CopySegment")
    for garbage in (b"\xff" * 40, b"\x0a\xff", b"\x0a\x02\xff\xff", b"\x12\x05ab", b"\x0b", b"\x0a\x03\x0a\x01\x0f"):
        details = refused(partial(raw, iter([garbage]), timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")
        assert details["field"] in ("message", "header")


def test_garbage_inside_a_chunk_is_refused(channel: grpc.Channel, upload: Messages) -> None:
    raw: Any = channel.stream_unary("/tiergate.v1.RemoteStorageService/CopySegment")
    header = upload[0].SerializeToString()
    for garbage in (
        b"\x12\x02\xff\xff",
        b"\x10\x05",
        b"\x12\x04\x0a\x02ab",
        b"\x12\x04\x7a\x09ab",
        b"\x12\x02\x78\x01",
    ):
        refused(partial(raw, iter([header, garbage]), timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")


def test_same_content_again_is_fine_whoever_sends_it(
    channel: grpc.Channel, stored: RemoteLogSegmentMetadata, upload: Messages
) -> None:
    again = upload_messages(stored, DATA)
    again[0].header.metadata.broker_id = 99
    again[0].header.metadata.event_timestamp_ms = 1
    again[0].header.metadata.custom_metadata = b"other"
    assert send(channel, again) == send(channel, upload)
    assert send(channel, again[:1]).custom_metadata, "answered before the chunks come"


def test_same_id_with_other_bytes_is_a_conflict(
    channel: grpc.Channel, storage: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    other = upload_messages(stored, make_data(seed=1))
    refused(lambda: send(channel, other), grpc.StatusCode.ALREADY_EXISTS, "SEGMENT_CONFLICT")
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(stored))
    received = b"".join(chunk.data for chunk in storage.FetchSegment(request, timeout=TIMEOUT_S))
    assert received == DATA.log


def test_deleted_id_cannot_be_copied_again(
    channel: grpc.Channel, storage: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    storage.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(stored)), timeout=TIMEOUT_S)
    storage.DeleteSegment(pb.DeleteSegmentRequest(metadata=metadata_to_proto(stored)), timeout=TIMEOUT_S)
    again = upload_messages(stored, DATA)
    refused(lambda: send(channel, again), grpc.StatusCode.ALREADY_EXISTS, "SEGMENT_CONFLICT")


@pytest.mark.parametrize(("offset", "length", "field"), [(-1, None, "offset"), (0, 0, "length"), (5, -3, "length")])
def test_fetch_of_no_range_is_refused(
    storage: storage_pb2_grpc.RemoteStorageServiceStub,
    stored: RemoteLogSegmentMetadata,
    offset: int,
    length: int | None,
    field: str,
) -> None:
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(stored), offset=offset, length=length)
    details = refused(lambda: list(storage.FetchSegment(request, timeout=TIMEOUT_S)), INVALID, "INVALID_FIELD")
    assert details["field"] == field


def test_fetch_at_the_end_is_one_empty_message_and_beyond_it_out_of_range(
    storage: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    size = LOG_BYTES
    request = pb.FetchSegmentRequest(metadata=metadata_to_proto(stored), offset=size)
    (only,) = storage.FetchSegment(request, timeout=TIMEOUT_S)
    assert (only.offset, only.data, only.HasField("stream_crc32c"), only.stream_crc32c) == (size, b"", True, 0)
    request.offset = size + 1
    details = refused(
        lambda: list(storage.FetchSegment(request, timeout=TIMEOUT_S)), OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE"
    )
    assert details == {"earliest": "0", "latest": str(size)}


def test_fetch_index_refuses_log_absent_index_and_far_offsets(
    storage: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    def fetch(file: int, offset: int = 0) -> Callable[[], object]:
        request = pb.FetchIndexRequest(
            metadata=metadata_to_proto(stored),
            file=file,  # type: ignore[arg-type]
            offset=offset,
        )
        return lambda: storage.FetchIndex(request, timeout=TIMEOUT_S)

    assert refused(fetch(LOG), INVALID, "INVALID_FIELD")["field"] == "file"
    assert refused(fetch(0), INVALID, "INVALID_FIELD")["field"] == "file"
    assert refused(fetch(50), INVALID, "INVALID_FIELD")["field"] == "file"
    refused(fetch(TXN_INDEX), NOT_FOUND, "INDEX_NOT_FOUND")
    offset_index = types_pb2.SEGMENT_FILE_OFFSET_INDEX
    assert refused(fetch(offset_index, -1), INVALID, "INVALID_FIELD")["field"] == "offset"
    refused(fetch(offset_index, INDEX_BYTES + 1), OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")


def test_unknown_segment_is_not_found_and_deleting_it_is_fine(
    storage: storage_pb2_grpc.RemoteStorageServiceStub, metadata: RemoteLogSegmentMetadata
) -> None:
    message = metadata_to_proto(metadata)
    index = pb.FetchIndexRequest(metadata=message, file=types_pb2.SEGMENT_FILE_OFFSET_INDEX)
    refused(lambda: storage.FetchIndex(index, timeout=TIMEOUT_S), NOT_FOUND, "SEGMENT_NOT_FOUND")
    storage.DeleteSegment(pb.DeleteSegmentRequest(metadata=message), timeout=TIMEOUT_S)
    bare = pb.DeleteSegmentRequest()
    refused(lambda: storage.DeleteSegment(bare, timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")
