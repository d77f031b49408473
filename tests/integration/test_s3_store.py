"""What holds for a bucket beyond the contract of object stores: parts, answers that break off, refusals."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from support.cutting_proxy import CuttingProxy, cutting_proxy
from support.s3_server import Bucket
from support.scripted_s3 import scripted_s3
from tiergate_client.errors import BackendThrottled, StorageUnavailable
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES, S3Settings
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.object_store import InvalidKey, ObjectNotFound, ObjectReader, ObjectStore, StoreRefused

MIB = 1024 * 1024
CONTENT = os.urandom(21 * MIB + 7)


@pytest.fixture
def settings(bucket: Bucket) -> S3Settings:
    return bucket.settings(
        part_bytes=SMALLEST_PART_BYTES,
        multipart_threshold_bytes=MIB,
        connect_timeout_s=2,
        read_timeout_s=2,
        max_attempts=2,
    )


@pytest.fixture
def store(settings: S3Settings) -> Iterator[S3Store]:
    with closing(S3Store(settings)) as opened:
        yield opened


def write_all(store: ObjectStore, key: str, content: bytes, *, piece_bytes: int = MIB) -> bool:
    with store.upload(key) as upload:
        for start in range(0, len(content), piece_bytes):
            upload.write(memoryview(content)[start : start + piece_bytes])
        return upload.commit()


@pytest.mark.parametrize("piece_bytes", [MIB, 3 * MIB + 1, 50 * MIB])
@pytest.mark.parametrize("threshold", [0, MIB, 12 * MIB, 30 * MIB])
def test_large_object_is_read_back_whatever_pieces_parts_and_threshold(
    settings: S3Settings, bucket: Bucket, piece_bytes: int, threshold: int
) -> None:
    with closing(S3Store(replace(settings, multipart_threshold_bytes=threshold))) as store:
        assert write_all(store, "a/large", CONTENT, piece_bytes=piece_bytes)
        assert store.get("a/large") == CONTENT
    is_multipart = bucket.client.head_object(Bucket=bucket.name, Key="tiered/here/a/large")["ETag"].endswith('-5"')
    assert is_multipart is (threshold < len(CONTENT))
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize("size", [MIB, MIB + 1, SMALLEST_PART_BYTES, 2 * SMALLEST_PART_BYTES])
def test_object_at_a_border_of_sizes_is_read_back(store: S3Store, bucket: Bucket, size: int) -> None:
    assert write_all(store, "a/b", CONTENT[:size])
    assert store.get("a/b") == CONTENT[:size]
    assert bucket.unfinished_uploads() == []


def test_aborted_upload_leaves_nothing_at_any_point(store: S3Store, bucket: Bucket) -> None:
    for written in (0, 1, MIB + 1, SMALLEST_PART_BYTES, len(CONTENT)):
        with store.upload("a/b") as upload:
            for start in range(0, written, MIB):
                upload.write(CONTENT[start : min(start + MIB, written)])
        assert bucket.unfinished_uploads() == []
    assert bucket.stored_keys() == []


def test_large_upload_to_a_taken_key_leaves_the_key_and_no_parts(store: S3Store, bucket: Bucket) -> None:
    with store.upload("a/b") as upload:
        for start in range(0, len(CONTENT), MIB):
            upload.write(CONTENT[start : start + MIB])
        assert bucket.unfinished_uploads() == ["tiered/here/a/b"]
        assert store.put_if_absent("a/b", b"early")
        assert not upload.commit()
    assert store.get("a/b") == b"early"
    assert bucket.unfinished_uploads() == []


def test_one_of_concurrent_large_uploads_of_a_key_wins(store: S3Store, bucket: Bucket) -> None:
    contents = [bytes([number]) * (6 * MIB) for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        wins = list(threads.map(lambda content: write_all(store, "a/b", content), contents))
    assert wins.count(True) == 1
    assert store.get("a/b") == contents[wins.index(True)]
    assert bucket.unfinished_uploads() == []


def test_upload_that_is_over_takes_no_more(store: S3Store) -> None:
    upload = store.upload("a/b")
    upload.commit()
    with pytest.raises(ValueError, match="is over"):
        upload.write(b"late")
    with pytest.raises(ValueError, match="is over"):
        upload.commit()


def test_listing_goes_over_pages(store: S3Store, bucket: Bucket) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.put_if_absent(f"many/{number}", b""), range(1010)))
    assert {info.key for info in store.list("many")} == {f"many/{number}" for number in range(1010)}


def test_key_and_prefix_have_to_fit_into_s3s_limit_together(store: S3Store) -> None:
    longest = "/".join(["k" * 202] * 5)[: 1024 - len("tiered/here/")]
    store.delete(longest)
    with pytest.raises(InvalidKey):
        store.delete(longest + "k")


@contextmanager
def cut_reader(
    settings: S3Settings, *, cut_after_bytes: int, offset: int = 0
) -> Iterator[tuple[ObjectReader, CuttingProxy]]:
    """A reader of a/b whose connections are cut again and again."""
    assert settings.endpoint_url is not None
    with (
        cutting_proxy(settings.endpoint_url, cut_after_bytes=cut_after_bytes) as proxy,
        closing(S3Store(replace(settings, endpoint_url=proxy.endpoint_url))) as store,
        store.open_range("a/b", offset=offset, length=len(CONTENT)) as reader,
    ):
        yield reader, proxy


def test_read_goes_on_where_the_answer_broke_off(store: S3Store, settings: S3Settings) -> None:
    write_all(store, "a/b", CONTENT)
    with cut_reader(settings, cut_after_bytes=4 * MIB, offset=5) as (reader, proxy):
        assert b"".join(iter(lambda: reader.read(MIB), b"")) == CONTENT[5:]
        assert proxy.cuts >= 5


def test_objects_that_were_read_to_their_end_leave_their_connection_to_the_next(
    store: S3Store, settings: S3Settings
) -> None:
    write_all(store, "a/b", CONTENT)
    place = memoryview(bytearray(len(CONTENT)))
    assert settings.endpoint_url is not None
    with (
        cutting_proxy(settings.endpoint_url, cut_after_bytes=100 * len(CONTENT)) as proxy,
        closing(S3Store(replace(settings, endpoint_url=proxy.endpoint_url))) as proxied,
    ):
        for _ in range(3):
            with proxied.open_range("a/b", offset=0, length=len(CONTENT)) as reader:
                assert reader.read_into(place) == len(CONTENT)
            assert place == CONTENT
        assert proxy.connections == 1


def test_read_gives_up_when_the_store_stays_away(store: S3Store, settings: S3Settings) -> None:
    write_all(store, "a/b", CONTENT)
    with cut_reader(settings, cut_after_bytes=2 * MIB) as (reader, proxy):
        assert reader.read(MIB) == CONTENT[:MIB]
        proxy.stop()
        with pytest.raises(StorageUnavailable) as failure:
            b"".join(iter(lambda: reader.read(MIB), b""))
        assert failure.value.retry_after_ms


def test_object_deleted_while_its_read_was_cut_off_is_unavailable(store: S3Store, settings: S3Settings) -> None:
    write_all(store, "a/b", CONTENT)
    with cut_reader(settings, cut_after_bytes=2 * MIB) as (reader, _):
        assert reader.read(MIB) == CONTENT[:MIB]
        store.delete("a/b")
        with pytest.raises(StorageUnavailable, match="was deleted while it was read"):
            b"".join(iter(lambda: reader.read(MIB), b""))


def test_server_that_is_down_is_unavailable(settings: S3Settings) -> None:
    with closing(S3Store(replace(settings, endpoint_url="http://127.0.0.1:1"))) as store:
        for use in (
            store.check,
            lambda: store.put_if_absent("a", b""),
            lambda: store.get("a"),
            lambda: store.delete("a"),
        ):
            with pytest.raises(StorageUnavailable) as failure:
                use()
            assert failure.value.retry_after_ms


def test_writer_whose_deadline_is_over_does_not_wait_for_the_check_of_another(store: S3Store) -> None:
    with (
        store._check_lock,
        call_deadline(0.01),
        pytest.raises(StorageUnavailable, match="did not answer in time"),
    ):
        store.put_if_absent("a", b"")
    with call_deadline(20):
        assert store.put_if_absent("a", b"")


def test_missing_bucket_is_refused_at_the_check_and_unavailable_later(settings: S3Settings) -> None:
    with closing(S3Store(replace(settings, bucket="nobody-made-this"))) as store:
        with pytest.raises(StoreRefused, match="create the bucket"):
            store.check()
        with pytest.raises(StorageUnavailable, match="create the bucket"):
            store.put_if_absent("a", b"")
        with pytest.raises(StorageUnavailable, match="create the bucket"):
            store.get("a")
        with pytest.raises(StorageUnavailable, match="create the bucket"):
            list(store.list("a"))


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_refused_at_the_check_and_never_shown(
    settings: S3Settings, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "wrong-and-private")
    with closing(S3Store(settings)) as store:
        with pytest.raises(StoreRefused, match="check the credentials") as refusal:
            store.check()
        assert "wrong-and-private" not in str(refusal.value)
        with pytest.raises(StorageUnavailable, match="check the credentials"):
            store.get("a")


def test_missing_credentials_are_refused_at_the_check(settings: S3Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with closing(S3Store(settings)) as store, pytest.raises(StoreRefused, match="check the credentials"):
        store.check()


def test_check_leaves_nothing_behind(store: S3Store, bucket: Bucket) -> None:
    store.check()
    assert bucket.stored_keys() == []


def test_store_that_knows_no_conditions_is_refused(settings: S3Settings) -> None:
    with (
        scripted_s3(501, "NotImplemented") as server,
        closing(S3Store(replace(settings, endpoint_url=server.endpoint_url))) as store,
        pytest.raises(StoreRefused, match="conditional writes"),
    ):
        store.check()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (503, "SlowDown", BackendThrottled),
        (429, "TooManyRequests", BackendThrottled),
        (400, "RequestLimitExceeded", BackendThrottled),
        (503, "ServiceUnavailable", StorageUnavailable),
        (500, "InternalError", StorageUnavailable),
        (403, "AccessDenied", StorageUnavailable),
        (404, "NoSuchBucket", StorageUnavailable),
        (409, "ConditionalRequestConflict", StorageUnavailable),
    ],
)
def test_answer_becomes_its_error_and_is_asked_for_at_most_as_often_as_allowed(
    settings: S3Settings, status: int, code: str, expected: type[BackendThrottled | StorageUnavailable]
) -> None:
    with (
        scripted_s3(status, code) as server,
        closing(S3Store(replace(settings, endpoint_url=server.endpoint_url))) as store,
    ):
        with pytest.raises(expected) as failure:
            store.get("a/b")
        assert failure.value.retry_after_ms
        assert code in failure.value.message
        assert 1 <= len(server.requests) <= settings.max_attempts


def test_absent_object_is_told_from_a_missing_bucket(settings: S3Settings) -> None:
    with (
        scripted_s3(404, "NoSuchKey") as server,
        closing(S3Store(replace(settings, endpoint_url=server.endpoint_url))) as store,
        pytest.raises(ObjectNotFound),
    ):
        store.get("a/b")


def lost(failure: S3Failure, complete: Callable[..., None] | None = None) -> Callable[..., None]:
    """A call that ends with this failure, after another one has succeeded."""

    def call(*arguments: object) -> None:
        if complete is not None:
            complete(*arguments)
        raise failure

    return call


@pytest.mark.parametrize("code", ["NoSuchUpload", "ConditionalRequestConflict", "PreconditionFailed"])
def test_large_upload_whose_success_was_not_heard_of_finds_its_object(
    store: S3Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    failure = S3Failure(code, 404, "", "CompleteMultipartUpload")
    monkeypatch.setattr(store._client, "complete_new", lost(failure, store._client.complete_new))
    assert not write_all(store, "a/b", CONTENT)
    assert store.get("a/b") == CONTENT
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize("code", ["NoSuchUpload", "ConditionalRequestConflict", "InternalError"])
def test_large_upload_that_failed_is_unavailable_and_leaves_nothing(
    store: S3Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(store._client, "complete_new", lost(S3Failure(code, 404, "", "CompleteMultipartUpload")))
    with pytest.raises(StorageUnavailable):
        write_all(store, "a/b", CONTENT)
    assert (bucket.unfinished_uploads(), bucket.stored_keys()) == ([], [])


def test_upload_takes_no_more_when_a_part_was_lost(
    store: S3Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.upload("a/b") as upload:
        upload.write(CONTENT[: 6 * MIB])
        with monkeypatch.context() as patch:
            patch.setattr(store._client, "send_part", lost(S3Failure("InternalError", 500, "", "UploadPart")))
            with pytest.raises(StorageUnavailable):
                upload.write(CONTENT[6 * MIB :])
        with pytest.raises(ValueError, match="is over"):
            upload.commit()
    assert (bucket.unfinished_uploads(), bucket.stored_keys()) == ([], [])


def test_put_in_conflict_with_another_one_looks_again(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.check()
    put_new = store._client.put_new
    conflict = S3Failure("ConditionalRequestConflict", 409, "", "PutObject")
    monkeypatch.setattr(store._client, "put_new", lost(conflict))
    with pytest.raises(StorageUnavailable):
        store.put_if_absent("a/b", b"first")
    monkeypatch.setattr(store._client, "put_new", lost(conflict, put_new))
    assert not store.put_if_absent("a/b", b"first")
    assert store.get("a/b") == b"first"


def test_presigned_url_reads_a_range_without_credentials(store: S3Store) -> None:
    store.put_if_absent("a/b", b"0123456789")
    url = store.presign("a/b", valid_s=60)
    assert url is not None
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Range": "bytes=3-5"})) as answer:  # noqa: S310
        assert answer.read() == b"345"
    absent = store.presign("a/absent", valid_s=10**9)
    assert absent is not None
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(absent)  # noqa: S310
    assert refusal.value.code == 404
