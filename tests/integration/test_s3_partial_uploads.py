"""Multipart uploads that are continued by others: what is kept, what is sent, and who wins. Real S3 server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from crc32c import crc32c

from support.s3_behind_proxy import store_behind
from support.s3_proxy import Answer, Fault, LoseAnswer, Refuse, Reset, Rule, S3Request, Stall, once
from support.s3_server import Bucket
from support.waiting import wait_until
from tiergate_client.clock import system_clock
from tiergate_client.errors import BackendThrottled, StorageUnavailable
from tiergate_server.adapters.s3_partial import S3PartialHandle
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES, S3Settings
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.object_store import PartialGone, PartialUpload

MIB = 1024 * 1024
PART = SMALLEST_PART_BYTES
CONTENT = os.urandom(3 * PART + 2 * MIB + 7)
BLOCKS = [crc32c(CONTENT[start : start + MIB]) for start in range(0, len(CONTENT), MIB)]
KEY = "a/large"


@pytest.fixture
def settings(bucket: Bucket) -> S3Settings:
    return bucket.settings(
        part_bytes=PART, multipart_threshold_bytes=PART, connect_timeout_s=2, read_timeout_s=2, max_attempts=2
    )


@pytest.fixture
def store(settings: S3Settings) -> Iterator[S3Store]:
    with closing(S3Store(settings)) as opened:
        yield opened
    assert sending_threads() == []


@pytest.fixture
def other_replica(settings: S3Settings) -> Iterator[S3Store]:
    with closing(S3Store(settings)) as opened:
        yield opened


def sending_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("s3-part")]


def begin(store: S3Store) -> str:
    handle = store.begin_partial(KEY, size_bytes=len(CONTENT))
    assert handle is not None
    return handle


def opened(store: S3Store, handle: str) -> PartialUpload:
    return store.open_partial(KEY, handle, size_bytes=len(CONTENT), block_crc32c=BLOCKS)


def write(upload: PartialUpload, start: int, end: int = len(CONTENT), *, piece_bytes: int = MIB) -> None:
    for position in range(start, end, piece_bytes):
        upload.write(memoryview(CONTENT)[position : min(position + piece_bytes, end)])


def write_and_commit(upload: PartialUpload) -> bool:
    write(upload, upload.committed_bytes)
    return upload.commit()


def test_object_that_is_put_in_one_request_has_no_partial_upload(store: S3Store, bucket: Bucket) -> None:
    assert store.begin_partial(KEY, size_bytes=PART) is None
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize("piece_bytes", [MIB, 2 * MIB, 7 * MIB + 1, len(CONTENT)])
def test_whole_object_is_written_in_parts_whatever_the_pieces(store: S3Store, bucket: Bucket, piece_bytes: int) -> None:
    with opened(store, begin(store)) as upload:
        assert upload.committed_bytes == 0
        write(upload, 0, piece_bytes=piece_bytes)
        assert upload.commit()
    assert store.get(KEY) == CONTENT
    assert bucket.client.head_object(Bucket=bucket.name, Key=f"tiered/here/{KEY}")["ETag"].endswith('-4"')
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize(("written", "kept"), [(0, 0), (PART - 1, 0), (PART, PART), (2 * PART + MIB, 2 * PART)])
def test_another_replica_goes_on_behind_the_whole_parts(
    store: S3Store, other_replica: S3Store, bucket: Bucket, written: int, kept: int
) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0, written)
    with opened(other_replica, handle) as upload:
        assert upload.committed_bytes == kept
        write(upload, kept)
        assert upload.commit()
    assert store.get(KEY) == CONTENT
    assert bucket.unfinished_uploads() == []


def test_upload_whose_every_part_is_there_needs_only_the_commit(store: S3Store, other_replica: S3Store) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0)
    with opened(other_replica, handle) as upload:
        assert upload.committed_bytes == len(CONTENT)
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_part_size_stays_that_of_the_beginning_when_the_configuration_changes(
    store: S3Store, settings: S3Settings, bucket: Bucket
) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0, 2 * PART)
    changed = bucket.settings(part_bytes=2 * PART, multipart_threshold_bytes=settings.multipart_threshold_bytes)
    with closing(S3Store(changed)) as other, opened(other, handle) as upload:
        assert upload.committed_bytes == 2 * PART
        write(upload, 2 * PART)
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_part_with_other_bytes_or_of_another_size_is_not_kept(store: S3Store, bucket: Bucket) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0, 3 * PART)
    where = {
        "Bucket": bucket.name,
        "Key": f"tiered/here/{KEY}",
        "UploadId": S3PartialHandle.from_text(handle).upload_id,
    }
    bucket.client.upload_part(**where, PartNumber=3, Body=CONTENT[2 * PART : 3 * PART - 1], ChecksumAlgorithm="CRC32C")
    with opened(store, handle) as upload:
        assert upload.committed_bytes == 2 * PART
    bucket.client.upload_part(**where, PartNumber=2, Body=bytes(PART), ChecksumAlgorithm="CRC32C")
    with opened(store, handle) as upload:
        assert upload.committed_bytes == PART
        write(upload, PART)
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_bytes_that_do_not_match_the_checksums_never_become_a_part(store: S3Store) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        upload.write(bytes(PART))
        with pytest.raises(StorageUnavailable):
            write(upload, PART)
    with opened(store, handle) as upload:
        assert upload.committed_bytes == 0
    store.end_partial(KEY, handle)


def test_part_is_sent_while_it_is_received(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process loses is bounded by the window, and so is what waits for the socket."""
    waiting: list[int] = []
    handle = begin(store)
    with opened(store, handle) as upload:
        for position in range(0, 2 * PART - MIB, MIB):
            upload.write(CONTENT[position : position + MIB])
            body = upload._filling  # type: ignore[attr-defined]
            waiting += [] if body is None else [body._received_bytes - body.tell()]
        body = upload._filling  # type: ignore[attr-defined]
        wait_until(lambda: bool(body.tell() == body._received_bytes))
        assert body.missing_bytes
    assert max(waiting) <= 3 * MIB
    store.end_partial(KEY, handle)


def test_many_sessions_write_the_same_upload_at_once_and_one_commits(store: S3Store, bucket: Bucket) -> None:
    """The store may call it an internal error that another completes the upload meanwhile: callers then try again."""
    handle = begin(store)

    def write_all(number: int, *, attempts: int = 5) -> str:
        try:
            with opened(store, handle) as upload:
                write(upload, upload.committed_bytes)
                return "new" if upload.commit() else "taken"
        except PartialGone:
            return "gone"
        except StorageUnavailable:
            if attempts == 1:
                raise
        time.sleep(0.5)
        return write_all(number, attempts=attempts - 1)

    with ThreadPoolExecutor(4) as threads:
        ends = list(threads.map(write_all, range(4)))
    assert "new" in ends
    assert store.get(KEY) == CONTENT
    assert bucket.unfinished_uploads() == []


def test_commit_to_a_taken_key_is_false_and_the_upload_can_be_ended(store: S3Store, bucket: Bucket) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0)
        assert store.put_if_absent(KEY, b"early")
        assert not upload.commit()
    assert store.get(KEY) == b"early"
    store.end_partial(KEY, handle)
    assert bucket.unfinished_uploads() == []


def test_commit_after_the_upload_was_committed_by_another_leaves_its_object(
    store: S3Store, other_replica: S3Store
) -> None:
    """Stores differ in whether they answer that they completed the same upload again, or that the key is taken."""
    handle = begin(store)
    with opened(store, handle) as late, opened(other_replica, handle) as early:
        write(late, 0)
        wait_until(lambda: late._sending is None)  # type: ignore[attr-defined]
        write(early, 0)
        assert early.commit()
        late.commit()
    assert store.get(KEY) == CONTENT


def test_upload_that_was_ended_is_gone(store: S3Store) -> None:
    handle = begin(store)
    with opened(store, handle) as writing, opened(store, handle) as committing:
        write(committing, 0)
        wait_until(lambda: committing._sending is None)  # type: ignore[attr-defined]
        store.end_partial(KEY, handle)
        store.end_partial(KEY, handle)
        with pytest.raises(PartialGone):
            write(writing, 0)
        with pytest.raises(PartialGone):
            committing.commit()
        with pytest.raises(ValueError, match="is over"):
            writing.write(b"")
    with pytest.raises(PartialGone):
        opened(store, handle)


def test_listed_uploads_can_be_ended_whoever_began_them(store: S3Store, bucket: Bucket) -> None:
    handle = begin(store)
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key="tiered/here/a/foreign")
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key="tiered/elsewhere")
    for prefix in ("a", ""):
        assert [info.key for info in store.list_partials(prefix)] == ["a/foreign", KEY]
    assert list(store.list_partials("b")) == []
    for info in store.list_partials(""):
        assert info.begun_at_ms > 1_700_000_000_000
        with pytest.raises(PartialGone):
            store.open_partial(info.key, info.handle, size_bytes=len(CONTENT), block_crc32c=BLOCKS)
        store.end_partial(info.key, info.handle)
    with pytest.raises(PartialGone):
        opened(store, handle)
    assert bucket.unfinished_uploads() == ["tiered/elsewhere"]


def test_upload_that_began_long_ago_tells_when_its_last_part_came(store: S3Store) -> None:
    handle = begin(store)
    (listed,) = store.list_partials("")
    assert store.last_written_ms(listed) == listed.begun_at_ms
    wait_until(lambda: system_clock() > listed.begun_at_ms + 1100)  # S3 tells whole seconds
    with opened(store, handle) as upload:
        write(upload, 0, PART)
    assert listed.begun_at_ms < store.last_written_ms(listed) <= system_clock() + 1000
    store.end_partial(KEY, handle)
    assert store.last_written_ms(listed) == listed.begun_at_ms


def number_three(fault: Fault) -> Rule:
    return lambda request: fault if request.is_part and request.query["partNumber"] == ["3"] else None


@pytest.mark.parametrize(
    "fault", [Refuse(503, "SlowDown"), Refuse(500, "InternalError"), Reset(), Reset(3 * MIB), Stall(), LoseAnswer()]
)
def test_part_that_failed_in_passing_is_sent_again(settings: S3Settings, bucket: Bucket, fault: Fault) -> None:
    with store_behind(settings, once(number_three(fault))) as (store, proxy), opened(store, begin(store)) as upload:
        write(upload, 0)
        assert upload.commit()
        assert sum(request.is_part and request.key.endswith(KEY) for request in proxy.requests) == 5
        assert store.get(KEY) == CONTENT
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Refuse(503, "SlowDown"), BackendThrottled),
        (Refuse(500, "InternalError"), StorageUnavailable),
        (Refuse(403, "AccessDenied"), StorageUnavailable),
        (Refuse(404, "NoSuchBucket"), StorageUnavailable),
        (Reset(3 * MIB), StorageUnavailable),
        (Stall(), StorageUnavailable),
    ],
)
def test_part_that_keeps_failing_ends_the_writing_and_keeps_the_parts_before(
    store: S3Store, settings: S3Settings, fault: Fault, expected: type[Exception]
) -> None:
    handle = begin(store)
    with store_behind(settings, number_three(fault)) as (troubled, _), opened(troubled, handle) as upload:
        with pytest.raises(expected):
            write_and_commit(upload)
        with pytest.raises(ValueError, match="is over"):
            upload.write(b"")
    with opened(store, handle) as upload:
        assert upload.committed_bytes == 2 * PART
        write(upload, 2 * PART)
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_commit_whose_answer_was_lost_finds_its_object(settings: S3Settings, bucket: Bucket) -> None:
    lost = once(lambda request: LoseAnswer() if request.is_completion else None)
    with store_behind(settings, lost) as (store, _), opened(store, begin(store)) as upload:
        write(upload, 0)
        upload.commit()
        assert store.get(KEY) == CONTENT
    assert bucket.unfinished_uploads() == []


# What versitygw says of an upload that another attempt is still putting together.
EARLY_SUCCESS = Answer(
    b"<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>etag</ETag></CompleteMultipartUploadResult>"
)


def test_commit_that_was_told_of_its_success_too_early_returns_when_the_object_is_there(
    store: S3Store, settings: S3Settings
) -> None:
    handle = begin(store)
    told = threading.Event()

    def early(request: S3Request) -> Fault | None:
        if request.method == "GET" and told.is_set():
            looked.set()
        if not request.is_completion or not request.key.endswith(KEY):
            return None
        told.set()
        return EARLY_SUCCESS

    looked = threading.Event()
    with store_behind(settings, early) as (hasty, _), ThreadPoolExecutor(1) as thread, opened(hasty, handle) as upload:
        write(upload, 0)
        committed = thread.submit(upload.commit)
        assert looked.wait(30)
        assert not committed.done()
        with opened(store, handle) as slow_attempt:
            assert slow_attempt.commit()
        assert committed.result(30)
        assert store.get(KEY) == CONTENT


def test_commit_whose_object_never_comes_fails_and_is_made_good_by_the_next(
    store: S3Store, settings: S3Settings
) -> None:
    handle = begin(store)
    early = once(lambda request: EARLY_SUCCESS if request.is_completion and request.key.endswith(KEY) else None)
    with store_behind(settings, early) as (hasty, _), call_deadline(5), opened(hasty, handle) as upload:
        write(upload, 0)
        with pytest.raises(StorageUnavailable, match="not put together yet"):
            upload.commit()
    with opened(store, handle) as upload:
        assert upload.committed_bytes == len(CONTENT)
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_object_is_there_for_each_of_many_that_commit_it_at_once(store: S3Store) -> None:
    handle = begin(store)
    with opened(store, handle) as upload:
        write(upload, 0)
    sessions = [opened(store, handle) for _ in range(4)]

    def is_there_after_commit(upload: PartialUpload) -> bool:
        with upload:
            upload.commit()
            return store.exists(KEY)

    with ThreadPoolExecutor(len(sessions)) as threads:
        assert all(threads.map(is_there_after_commit, sessions))
    assert store.get(KEY) == CONTENT


def test_no_attempt_begins_after_the_deadline_of_the_call(settings: S3Settings, store: S3Store) -> None:
    handle = begin(store)
    patient = replace(settings, max_attempts=50)
    with store_behind(patient, number_three(Refuse(500, "InternalError"))) as (troubled, proxy):
        with call_deadline(1.5), opened(troubled, handle) as upload, pytest.raises(StorageUnavailable):
            write_and_commit(upload)
        attempts = sum(request.query.get("partNumber") == ["3"] for request in proxy.requests)
        assert 1 <= attempts < 50
    store.end_partial(KEY, handle)


def test_part_that_another_session_sent_again_under_another_tag_is_looked_up(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With encryption by keys of KMS the same bytes have another tag each time."""
    with opened(store, begin(store)) as upload:
        write(upload, 0)
        wait_until(lambda: upload._sending is None)  # type: ignore[attr-defined]
        stale = replace(upload._parts[1], etag='"0123456789abcdef0123456789abcdef"')  # type: ignore[attr-defined]
        upload._parts[1] = stale  # type: ignore[attr-defined]
        assert upload.commit()
    assert store.get(KEY) == CONTENT


def test_closed_upload_has_let_go_of_its_thread_whatever_was_on_its_way(store: S3Store) -> None:
    handle = begin(store)
    for written in (0, 1, MIB, PART - 1, PART, PART + MIB):
        with opened(store, handle) as upload:
            write(upload, upload.committed_bytes, min(len(CONTENT), upload.committed_bytes + written))
        assert upload._sending is None  # type: ignore[attr-defined]
    store.end_partial(KEY, handle)


@pytest.mark.parametrize("handle", ["", "{}", "null", '{"v":1,"id":"x","part_bytes":5242880}', "[1]"])
def test_handle_of_no_upload_is_gone_and_ended_already(store: S3Store, handle: str) -> None:
    with pytest.raises(PartialGone):
        opened(store, handle)
    store.end_partial(KEY, handle)


def test_handle_of_a_newer_release_is_left_to_it(store: S3Store) -> None:
    with pytest.raises(StorageUnavailable, match="version 2"):
        opened(store, '{"v":2,"id":"x"}')
