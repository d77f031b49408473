"""BatchFetchIndexes and VerifySegment row by row, and what the client makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from crc32c import crc32c
from google.rpc import error_details_pb2

from support.metrics import metric
from support.planes import Planes, running_planes
from support.segments import make_data, make_metadata
from support.stored_objects import DirectoryObjects
from support.wire import TIMEOUT_S, channel_to, refused, send, upload_messages
from tiergate.v1 import storage_pb2 as pb
from tiergate.v1 import storage_pb2_grpc, types_pb2
from tiergate_client import IndexQuestion, connect
from tiergate_client.conversions import file_to_proto, metadata_to_proto
from tiergate_client.errors import IndexNotFound, SegmentNotFound, StorageUnavailable
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata

MIB = 1024 * 1024
ANSWER_BYTES = 4 * MIB
OK, INVALID, NOT_FOUND = 0, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
EXHAUSTED, UNAVAILABLE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
DATA_LOSS = grpc.StatusCode.DATA_LOSS
OFFSET_INDEX, TIME_INDEX, TXN_INDEX = SegmentFile.OFFSET_INDEX, SegmentFile.TIME_INDEX, SegmentFile.TXN_INDEX
DATA = make_data(log_bytes=10)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def own_planes(directory: Path) -> Iterator[Planes]:
    """A limit that is easily passed, and files that may be damaged."""
    settings = {"segments__limits__batch_indexes": "10", "segments__limits__downloads": "1"}
    with running_planes(directory, segments__metrics="127.0.0.1:0", **settings) as planes:
        yield planes


@pytest.fixture
def channel(own_planes: Planes) -> Iterator[grpc.Channel]:
    with channel_to(own_planes.segments.address) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> storage_pb2_grpc.RemoteStorageServiceStub:
    return storage_pb2_grpc.RemoteStorageServiceStub(channel)


@pytest.fixture
def objects(directory: Path) -> DirectoryObjects:
    return DirectoryObjects(directory / "segments")


@pytest.fixture
def store(channel: grpc.Channel) -> Callable[[LogSegmentData], RemoteLogSegmentMetadata]:
    def store(data: LogSegmentData) -> RemoteLogSegmentMetadata:
        metadata = make_metadata()
        send(channel, upload_messages(metadata, data))
        return metadata

    return store


@pytest.fixture
def stored(store: Callable[[LogSegmentData], RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata:
    return store(DATA)


def question(metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> pb.IndexQuestion:
    return pb.IndexQuestion(metadata=metadata_to_proto(metadata), file=file_to_proto(file))


def row_of(item: pb.IndexAnswer) -> tuple[int, str, dict[str, str]]:
    """Code, reason and metadata of the status of an item."""
    info = error_details_pb2.ErrorInfo()
    for detail in item.status.details:
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    return item.status.code, info.reason, dict(info.metadata)


def test_batch_of_nothing_is_refused(stub: storage_pb2_grpc.RemoteStorageServiceStub) -> None:
    empty = pb.BatchFetchIndexesRequest()
    details = refused(lambda: stub.BatchFetchIndexes(empty, timeout=TIMEOUT_S), INVALID, "INVALID_FIELD")
    assert details["field"] == "items"


def test_batch_above_the_limit_is_refused_and_the_limit_is_published(
    own_planes: Planes, stub: storage_pb2_grpc.RemoteStorageServiceStub, stored: RemoteLogSegmentMetadata
) -> None:
    request = pb.BatchFetchIndexesRequest(items=[question(stored, OFFSET_INDEX)] * 11)
    details = refused(lambda: stub.BatchFetchIndexes(request, timeout=TIMEOUT_S), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "batch_indexes", "value": "10"}
    with connect(own_planes.target) as tiergate:
        assert tiergate.server_info("segments").limits["batch_indexes"] == 10


def test_items_have_a_status_each_and_come_in_the_order_asked(
    stub: storage_pb2_grpc.RemoteStorageServiceStub, objects: DirectoryObjects, stored: RemoteLogSegmentMetadata
) -> None:
    objects.flip(stored, TIME_INDEX, position=3)
    malformed = question(stored, OFFSET_INDEX)
    malformed.metadata.segment_id = b"too short"
    items = [
        question(stored, OFFSET_INDEX),
        question(stored, SegmentFile.LOG),
        pb.IndexQuestion(metadata=metadata_to_proto(stored)),
        malformed,
        question(make_metadata(), OFFSET_INDEX),
        question(stored, TXN_INDEX),
        question(stored, TIME_INDEX),
        question(stored, SegmentFile.LEADER_EPOCH),
    ]
    answers = stub.BatchFetchIndexes(pb.BatchFetchIndexesRequest(items=items), timeout=TIMEOUT_S).items
    rows = [row_of(answer) for answer in answers]
    assert [(code, reason) for code, reason, _ in rows] == [
        (OK, ""),
        (INVALID.value[0], "INVALID_FIELD"),
        (INVALID.value[0], "INVALID_FIELD"),
        (INVALID.value[0], "INVALID_FIELD"),
        (NOT_FOUND.value[0], "SEGMENT_NOT_FOUND"),
        (NOT_FOUND.value[0], "INDEX_NOT_FOUND"),
        (DATA_LOSS.value[0], "CHECKSUM_MISMATCH"),
        (OK, ""),
    ]
    fields = [row[2]["field"] for row in rows[1:4]]
    assert fields == ["items[1].file", "items[2].file", "items[3].metadata.segment_id"]
    assert [answers[0].data, answers[7].data] == [DATA.offset_index, DATA.leader_epoch]
    assert [answers[0].crc32c, answers[7].crc32c] == [crc32c(answers[0].data), crc32c(answers[7].data)]
    assert not any(answer.data for answer in answers[1:7])


def test_file_that_cannot_be_read_is_unavailable_and_leaves_the_others_alone(
    own_planes: Planes,
    stub: storage_pb2_grpc.RemoteStorageServiceStub,
    objects: DirectoryObjects,
    directory: Path,
    stored: RemoteLogSegmentMetadata,
) -> None:
    path = directory / "segments" / objects.key_of(stored, TIME_INDEX)
    kept = path.rename(path.with_name("kept"))
    path.symlink_to(path)  # opening it fails, also for a process that may do everything
    items = [question(stored, file) for file in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, SegmentFile.LEADER_EPOCH)]
    answers = stub.BatchFetchIndexes(pb.BatchFetchIndexesRequest(items=items), timeout=TIMEOUT_S).items
    assert [row_of(answer)[:2] for answer in answers] == [
        (OK, ""),
        (UNAVAILABLE.value[0], "STORAGE_UNAVAILABLE"),
        (NOT_FOUND.value[0], "INDEX_NOT_FOUND"),
        (OK, ""),
    ]
    with connect(own_planes.target, timeout_s=5) as tiergate, pytest.raises(StorageUnavailable):
        list(tiergate.storage.verify_segment(stored))
    path.unlink()
    kept.rename(path)
    assert (
        not stub.BatchFetchIndexes(pb.BatchFetchIndexesRequest(items=items[1:2]), timeout=TIMEOUT_S)
        .items[0]
        .status.code
    )


@pytest.mark.parametrize("index_bytes", [MIB, ANSWER_BYTES - 20_000, ANSWER_BYTES])
def test_answer_stays_below_the_message_limit_and_says_what_no_longer_fits(
    stub: storage_pb2_grpc.RemoteStorageServiceStub,
    store: Callable[[LogSegmentData], RemoteLogSegmentMetadata],
    index_bytes: int,
) -> None:
    stored = store(make_data(log_bytes=10, index_bytes=index_bytes, with_producer_snapshot=False))
    items = [question(stored, OFFSET_INDEX), question(stored, TIME_INDEX)] * 3 + [question(stored, TXN_INDEX)]
    answer = stub.BatchFetchIndexes(pb.BatchFetchIndexesRequest(items=items), timeout=TIMEOUT_S)
    assert answer.ByteSize() <= ANSWER_BYTES
    fits = [bool(item.data) for item in answer.items[:6]]
    assert sum(fits) == {MIB: 3, ANSWER_BYTES - 20_000: 1, ANSWER_BYTES: 0}[index_bytes]
    for item, is_there in zip(answer.items[:6], fits, strict=True):
        if not is_there:
            code, reason, details = row_of(item)
            assert (code, reason) == (EXHAUSTED.value[0], "LIMIT_EXCEEDED")
            assert details == {"limit": "message_bytes", "value": str(ANSWER_BYTES)}
    assert row_of(answer.items[6])[1] == "INDEX_NOT_FOUND", "there is always room for what is small"


def test_index_that_all_but_fills_the_answer_alone_fits(
    stub: storage_pb2_grpc.RemoteStorageServiceStub, store: Callable[[LogSegmentData], RemoteLogSegmentMetadata]
) -> None:
    stored = store(make_data(log_bytes=10, index_bytes=ANSWER_BYTES - 20_000, with_producer_snapshot=False))
    request = pb.BatchFetchIndexesRequest(items=[question(stored, OFFSET_INDEX)])
    answer = stub.BatchFetchIndexes(request, timeout=TIMEOUT_S)
    assert len(answer.items[0].data) == ANSWER_BYTES - 20_000
    assert answer.ByteSize() <= ANSWER_BYTES


def test_client_splits_at_the_limit_and_fetches_alone_what_does_not_fit(
    own_planes: Planes, store: Callable[[LogSegmentData], RemoteLogSegmentMetadata]
) -> None:
    small, large = DATA, make_data(log_bytes=10, index_bytes=2 * MIB + 5, with_producer_snapshot=False)
    segments = {store(small): small, store(large): large}
    questions = [IndexQuestion(metadata, file) for metadata in segments for file in (OFFSET_INDEX, TIME_INDEX)] * 6
    questions += [IndexQuestion(make_metadata(), OFFSET_INDEX), IndexQuestion(next(iter(segments)), TXN_INDEX)]
    batches = 'tiergate_rpc_requests_total{code="OK",method="/tiergate.v1.RemoteStorageService/BatchFetchIndexes"}'
    before = metric(own_planes.segments, batches)
    with connect(own_planes.target, timeout_s=TIMEOUT_S) as tiergate:
        answers = tiergate.storage.fetch_indexes(questions)
        assert tiergate.storage.fetch_indexes([]) == []
    assert metric(own_planes.segments, batches) - before == 3
    expected = [getattr(segments[asked.metadata], asked.file.value) for asked in questions[:-2]]
    assert answers[:-2] == expected
    assert isinstance(answers[-2], SegmentNotFound)
    assert isinstance(answers[-1], IndexNotFound)


def test_pieces_of_an_index_are_read_once_and_counted_as_hits(
    own_planes: Planes, store: Callable[[LogSegmentData], RemoteLogSegmentMetadata]
) -> None:
    data = make_data(log_bytes=10, index_bytes=5 * MIB, with_producer_snapshot=False)
    metadata = store(data)

    def lookups(kind: str, result: str) -> float:
        labels = f'{{kind="{kind}",result="{result}",store="default"}}'
        return metric(own_planes.segments, f"tiergate_segments_cache_lookups_total{labels}")

    with connect(own_planes.target, timeout_s=TIMEOUT_S) as tiergate:
        for _ in range(2):  # from then on both are counted
            tiergate.storage.fetch_index(metadata, OFFSET_INDEX)
        hits, misses = lookups("index", "hit"), lookups("index", "miss")
        assert tiergate.storage.fetch_index(metadata, TIME_INDEX) == data.time_index
    assert (lookups("index", "hit") - hits, lookups("index", "miss") - misses) == (2, 1)
    held = metric(own_planes.segments, 'tiergate_segments_cache_bytes{store="default"}')
    assert 10 * MIB < held < 64 * MIB


def test_verification_of_what_is_not_there_is_not_found(stub: storage_pb2_grpc.RemoteStorageServiceStub) -> None:
    request = pb.VerifySegmentRequest(metadata=metadata_to_proto(make_metadata()))
    refused(lambda: list(stub.VerifySegment(request, timeout=TIMEOUT_S)), NOT_FOUND, "SEGMENT_NOT_FOUND")


def test_verification_of_a_damaged_manifest_is_data_loss(
    stub: storage_pb2_grpc.RemoteStorageServiceStub, objects: DirectoryObjects, stored: RemoteLogSegmentMetadata
) -> None:
    objects.flip(stored, None, position=50)
    request = pb.VerifySegmentRequest(metadata=metadata_to_proto(stored))
    refused(lambda: list(stub.VerifySegment(request, timeout=TIMEOUT_S)), DATA_LOSS, "CHECKSUM_MISMATCH")


def test_verification_tells_how_far_it_is_and_what_differs_and_counts_it(
    own_planes: Planes,
    stub: storage_pb2_grpc.RemoteStorageServiceStub,
    objects: DirectoryObjects,
    stored: RemoteLogSegmentMetadata,
) -> None:
    request = pb.VerifySegmentRequest(metadata=metadata_to_proto(stored))
    total_bytes = sum(file.size_bytes for file in DATA.manifest(stored).files.values())
    before = metric(own_planes.segments, "tiergate_segments_damages_total")
    first, last = stub.VerifySegment(request, timeout=TIMEOUT_S)
    assert first == pb.VerifySegmentResponse(verified_bytes=0, total_bytes=total_bytes)
    assert last == pb.VerifySegmentResponse(verified_bytes=total_bytes, total_bytes=total_bytes)
    objects.flip(stored, SegmentFile.LOG, position=0)
    *_, last = stub.VerifySegment(request, timeout=TIMEOUT_S)
    assert last.verified_bytes == total_bytes
    assert list(last.damages) == [
        pb.Damage(file=types_pb2.SEGMENT_FILE_LOG, position=0, fact="does not match its checksum")
    ]
    assert metric(own_planes.segments, "tiergate_segments_damages_total") == before + 1


def test_verification_beside_too_many_downloads_is_told_to_wait_and_the_client_does(
    own_planes: Planes,
    stub: storage_pb2_grpc.RemoteStorageServiceStub,
    store: Callable[[LogSegmentData], RemoteLogSegmentMetadata],
) -> None:
    large, small = store(make_data(log_bytes=64 * MIB)), store(DATA)
    download = stub.FetchSegment(pb.FetchSegmentRequest(metadata=metadata_to_proto(large)))
    next(download)
    request = pb.VerifySegmentRequest(metadata=metadata_to_proto(small))
    details = refused(lambda: list(stub.VerifySegment(request, timeout=TIMEOUT_S)), EXHAUSTED, "LIMIT_EXCEEDED")
    assert details == {"limit": "downloads", "value": "1"}
    with connect(own_planes.target, timeout_s=TIMEOUT_S) as tiergate:
        told = tiergate.storage.verify_segment(small)
        download.cancel()
        assert [*told][-1].is_complete
