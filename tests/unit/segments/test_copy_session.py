from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from support.forgetful_disk import ForgetfulDisk
from support.segments import make_data, make_metadata, read_back, segment_data
from tiergate_client.errors import (
    DeadlineExceeded,
    InvalidField,
    LimitExceeded,
    OffsetOutOfRange,
    SegmentConflict,
    SegmentNotFound,
    SentDataCorrupt,
)
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.copy_session import CopySession
from tiergate_server.segments.custom_metadata import CustomMetadataV1
from tiergate_server.segments.pending_upload import read_descriptor
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata()
DATA = make_data(log_bytes=2 * BLOCK_BYTES + 10)
MANIFEST = DATA.manifest(METADATA)


@pytest.fixture
def store() -> FilesystemStore:
    return FilesystemStore(Path("/store"), disk=ForgetfulDisk())


@pytest.fixture
def storage(store: FilesystemStore) -> SegmentStorage:
    return SegmentStorage(store, clock=lambda: 42, index_bytes=1000)


def begun(storage: SegmentStorage, manifest: SegmentManifest = MANIFEST) -> CopySession:
    session = storage.begin_copy(manifest)
    assert isinstance(session, CopySession)
    return session


def content(data: LogSegmentData, file: SegmentFile) -> bytes:
    source = data.sources[file]
    assert isinstance(source, bytes)
    return source


def send(session: CopySession, file: SegmentFile, offset: int, data: bytes | memoryview) -> None:
    session.write(file, offset, data, crc32c(data))


def send_all(session: CopySession, data: LogSegmentData = DATA) -> None:
    for chunk in data.chunks():
        send(session, chunk.file, chunk.offset, chunk.data)


def send_log(session: CopySession, log: bytes, chunk_bytes: int) -> None:
    for start in range(0, len(log), chunk_bytes):
        send(session, SegmentFile.LOG, start, log[start : start + chunk_bytes])


def with_checksum(file: SegmentFile, checksum: FileChecksum) -> SegmentManifest:
    return replace(MANIFEST, files={**MANIFEST.files, file: checksum})


def assert_only_the_descriptor_is_stored(store: FilesystemStore, storage: SegmentStorage) -> None:
    with pytest.raises(SegmentNotFound):
        storage.get_manifest(METADATA)
    assert [info.key.rpartition("/")[2] for info in store.list(str(METADATA.partition.topic_id) + "_0")] == [
        "upload.json"
    ]


def test_finish_returns_custom_metadata_with_the_digest(storage: SegmentStorage) -> None:
    with begun(storage) as session:
        send_all(session)
        assert session.finish() == CustomMetadataV1(MANIFEST.upload_digest).to_bytes()
    assert read_back(storage, METADATA) == DATA


def test_descriptor_is_there_from_the_beginning_and_gone_at_the_end(
    store: FilesystemStore, storage: SegmentStorage
) -> None:
    segment = f"{METADATA.partition.topic_id}_0/{METADATA.segment_id}"
    session = begun(storage)
    [descriptor] = store.list(segment)
    assert descriptor.key == f"{segment}/{MANIFEST.upload_digest}/upload.json"
    read = read_descriptor(store, descriptor.key)
    assert read is not None
    assert (read.manifest, read.started_at_ms) == (MANIFEST, 42)
    send_all(session)
    session.finish()
    assert {info.key.rpartition("/")[2] for info in store.list(segment)} == {
        "manifest.json",
        *(file.value for file in MANIFEST.files),
    }


def test_abort_leaves_only_what_another_session_continues(store: FilesystemStore, storage: SegmentStorage) -> None:
    session = begun(storage)
    send_all(session)
    session.abort()
    session.abort()
    assert_only_the_descriptor_is_stored(store, storage)


def test_uploads_are_not_listed_any_further_when_the_deadline_is_over(storage: SegmentStorage) -> None:
    begun(storage).abort()
    with call_deadline(20):
        assert len([*storage.list_uploads(METADATA.partition)]) == 1
    with call_deadline(0), pytest.raises(DeadlineExceeded, match="ask with a later deadline"):
        next(storage.list_uploads(METADATA.partition))


def test_abort_has_no_effect_after_finish(storage: SegmentStorage) -> None:
    session = begun(storage)
    send_all(session)
    session.finish()
    session.abort()
    assert read_back(storage, METADATA) == DATA


@pytest.mark.parametrize("end", ["finish", "abort"])
def test_session_that_is_over_takes_nothing_more(storage: SegmentStorage, end: str) -> None:
    session = begun(storage)
    send_all(session)
    getattr(session, end)()
    with pytest.raises(InvalidField, match="is over"):
        send(session, SegmentFile.LOG, 0, b"")
    with pytest.raises(InvalidField, match="is over"):
        session.finish()


def pieces_of(data: bytes, cuts: list[int]) -> Iterator[tuple[int, bytes]]:
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(borders):
        yield start, data[start:end]


@st.composite
def chunkings(draw: st.DrawFn, data: LogSegmentData) -> list[SegmentChunk]:
    """Every file cut anywhere, some chunks beginning earlier than needed, files mixed."""
    queues = []
    for file in data.sources:
        source = content(data, file)
        cuts = draw(st.lists(st.integers(0, 2**24) | st.sampled_from([BLOCK_BYTES, 2 * BLOCK_BYTES]), max_size=5))
        queue = []
        for start, piece in pieces_of(source, cuts):
            again = min(start, draw(st.sampled_from([0, 0, 1, 1000, BLOCK_BYTES])))
            queue.append(SegmentChunk(file, start - again, source[start - again : start + len(piece)]))
        queues.append(queue)
    mixed = []
    while queues := [queue for queue in queues if queue]:
        mixed.append(queues[draw(st.integers(0, len(queues) - 1))].pop(0))
    return mixed


@given(drawn=st.data(), data=segment_data())
@settings(max_examples=40, deadline=None)
def test_segment_is_stored_whole_however_it_is_cut_into_chunks(drawn: st.DataObject, data: LogSegmentData) -> None:
    storage = SegmentStorage(FilesystemStore(Path("/store"), disk=ForgetfulDisk()))
    with begun(storage, data.manifest(METADATA)) as session:
        for chunk in drawn.draw(chunkings(data)):
            send(session, chunk.file, chunk.offset, memoryview(chunk.data))
        session.finish()
    assert read_back(storage, METADATA) == data


@given(drawn=st.data(), data=segment_data())
@settings(max_examples=40, deadline=None)
def test_any_range_is_what_slicing_gives(drawn: st.DataObject, data: LogSegmentData) -> None:
    storage = SegmentStorage(FilesystemStore(Path("/store"), disk=ForgetfulDisk()))
    storage.copy_segment(METADATA, data)
    log = content(data, SegmentFile.LOG)
    for _ in range(5):
        offset = drawn.draw(st.integers(0, len(log)))
        length = drawn.draw(st.none() | st.integers(1, len(log) + 10))
        expected = log[offset:] if length is None else log[offset : offset + length]
        with storage.fetch_segment(METADATA, offset=offset, length=length) as stream:
            assert stream.read() == expected


def test_chunk_checksum_is_looked_at_before_anything_else(storage: SegmentStorage) -> None:
    session = begun(storage)
    with pytest.raises(SentDataCorrupt, match="chunk of the txn_index at -5"):
        session.write(SegmentFile.TXN_INDEX, -5, b"abc", crc32c(b"abd"))


def test_chunk_of_a_file_that_was_not_announced_is_refused(storage: SegmentStorage) -> None:
    with pytest.raises(InvalidField, match="announced no txn_index"):
        send(begun(storage), SegmentFile.TXN_INDEX, 0, b"abc")


def test_negative_offset_is_refused(storage: SegmentStorage) -> None:
    with pytest.raises(InvalidField, match="offset: -1 is negative"):
        send(begun(storage), SegmentFile.LOG, -1, b"abc")


@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.TIME_INDEX])
def test_gap_is_out_of_range_and_says_where_to_continue(storage: SegmentStorage, file: SegmentFile) -> None:
    session = begun(storage)
    source = content(DATA, file)
    send(session, file, 0, source[:20])
    with pytest.raises(OffsetOutOfRange) as caught:
        send(session, file, 21, source[21:30])
    assert caught.value.details == {"committed_bytes": "20"}
    send(session, file, 20, source[20:])


@pytest.mark.parametrize("file", [SegmentFile.LOG, SegmentFile.TIME_INDEX])
def test_more_bytes_than_announced_are_refused(storage: SegmentStorage, file: SegmentFile) -> None:
    source = content(DATA, file) + b"x"
    session = begun(storage)
    with pytest.raises(InvalidField, match="were announced"):
        send(session, file, len(source) - 1, b"x")
    with pytest.raises(InvalidField, match="were announced"):
        send(session, file, 0, source)


@pytest.mark.parametrize("file", list(MANIFEST.files))
@pytest.mark.parametrize("missing", [1, None])
def test_fewer_bytes_than_announced_are_refused_at_finish(
    store: FilesystemStore, storage: SegmentStorage, file: SegmentFile, missing: int | None
) -> None:
    with begun(storage) as session:
        for each in MANIFEST.files:
            source = content(DATA, each)
            if each is not file:
                send(session, each, 0, source)
            elif missing is not None:
                send(session, each, 0, source[:-missing])
        with pytest.raises(InvalidField, match=f"of the {file.value} were announced"):
            session.finish()
    assert_only_the_descriptor_is_stored(store, storage)


@pytest.mark.parametrize("chunk_bytes", [BLOCK_BYTES, 2 * BLOCK_BYTES, 700_000])
def test_block_that_differs_from_the_header_does_not_reach_the_store(
    store: FilesystemStore, storage: SegmentStorage, chunk_bytes: int
) -> None:
    log = bytearray(content(DATA, SegmentFile.LOG))
    log[BLOCK_BYTES + 5] ^= 1
    with begun(storage) as session, pytest.raises(SentDataCorrupt, match=f"block at {BLOCK_BYTES} "):
        send_log(session, bytes(log), chunk_bytes)
    assert storage.get_upload(MANIFEST).committed_bytes[SegmentFile.LOG] == BLOCK_BYTES
    assert_only_the_descriptor_is_stored(store, storage)


def test_log_whose_checksum_is_not_that_of_its_blocks_is_refused_at_once(
    store: FilesystemStore, storage: SegmentStorage
) -> None:
    announced = MANIFEST.log
    with pytest.raises(SentDataCorrupt, match="but its blocks make"):
        storage.begin_copy(with_checksum(SegmentFile.LOG, replace(announced, crc32c=announced.crc32c ^ 1)))
    assert list(store.list("")) == []


@pytest.mark.parametrize("file", [file for file in MANIFEST.files if file is not SegmentFile.LOG])
def test_index_whose_whole_checksum_differs_commits_nothing(
    store: FilesystemStore, storage: SegmentStorage, file: SegmentFile
) -> None:
    announced = MANIFEST.files[file]
    with begun(storage, with_checksum(file, replace(announced, crc32c=announced.crc32c ^ 1))) as session:
        send_all(session)
        with pytest.raises(SentDataCorrupt, match=f"the {file.value} has checksum"):
            session.finish()
    assert_only_the_descriptor_is_stored(store, storage)


def test_index_above_the_limit_is_refused_before_anything_is_stored(
    store: FilesystemStore, storage: SegmentStorage
) -> None:
    with pytest.raises(LimitExceeded) as caught:
        storage.begin_copy(make_data(index_bytes=1001).manifest(METADATA))
    assert caught.value.details == {"limit": "index_bytes", "value": "1000"}
    assert list(store.list("")) == []
    begun(storage, make_data(index_bytes=1000).manifest(METADATA))


def test_session_buffers_at_most_one_block(storage: SegmentStorage) -> None:
    session = begun(storage)
    log = content(DATA, SegmentFile.LOG)
    for start in range(0, len(log), 300_000):
        send(session, SegmentFile.LOG, start, log[start : start + 300_000])
        assert len(session._files[SegmentFile.LOG]._partial_block) < BLOCK_BYTES  # type: ignore[attr-defined]


def test_second_session_of_the_same_content_finds_it_done(storage: SegmentStorage) -> None:
    first, second = begun(storage), begun(storage)
    send_all(first)
    send_all(second)
    assert first.finish() == second.finish() == storage.begin_copy(MANIFEST)
    assert read_back(storage, METADATA) == DATA


def test_second_session_of_other_content_loses_and_takes_its_files_away(
    store: FilesystemStore, storage: SegmentStorage
) -> None:
    other = make_data(seed=1)
    loser = begun(storage, other.manifest(METADATA))
    send_all(loser, other)
    storage.copy_segment(METADATA, DATA)
    with loser, pytest.raises(SegmentConflict, match="other content"):
        loser.finish()
    assert read_back(storage, METADATA) == DATA
    assert {info.key.split("/")[2] for info in store.list(str(METADATA.partition.topic_id) + "_0")} == {
        "manifest.json",
        MANIFEST.upload_digest,
    }


@pytest.mark.parametrize("sent", [True, False])
def test_copy_under_way_cannot_complete_after_a_delete(
    store: FilesystemStore, storage: SegmentStorage, sent: bool
) -> None:
    session = begun(storage)
    if sent:
        send_all(session)
    storage.delete_segment(METADATA)
    if not sent:
        send_all(session)
    with session, pytest.raises(SegmentConflict, match="was deleted: take a new segment id"):
        session.finish()
    with pytest.raises(SegmentNotFound):
        storage.get_manifest(METADATA)
    assert [info.key.rpartition("/")[2] for info in store.list(str(METADATA.partition.topic_id) + "_0")] == [
        "manifest.json"
    ]


def test_copy_under_way_is_seen_by_a_delete_after_another_one_of_the_same_content_was_aborted(
    storage: SegmentStorage,
) -> None:
    aborted, under_way = begun(storage), begun(storage)
    aborted.abort()
    storage.delete_segment(METADATA)
    send_all(under_way)
    with pytest.raises(SegmentConflict, match="was deleted"):
        under_way.finish()


@pytest.mark.parametrize("change", [-1, 1], ids=["shrunk", "grown"])
def test_file_that_changes_while_it_is_read_is_sent_data_corrupt(
    store: FilesystemStore, storage: SegmentStorage, tmp_path: Path, change: int
) -> None:
    class ChangingData(LogSegmentData):
        def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
            path.write_bytes(bytes(1000 + change))
            return super().chunks(begin_at=begin_at)

    path = tmp_path / "log"
    path.write_bytes(bytes(1000))
    with pytest.raises(SentDataCorrupt, match=r"changed while it was read|checksum"):
        storage.copy_segment(METADATA, ChangingData(path, b"", b"", b""))
    assert_only_the_descriptor_is_stored(store, storage)
