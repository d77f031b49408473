"""A store whose connections break, stall or are refused: its errors, retries inside deadlines, and nothing left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from support.s3_behind_proxy import store_behind
from support.s3_proxy import (
    Answer,
    Fault,
    LoseAnswer,
    Refuse,
    Reset,
    Stall,
    Truncate,
    once,
)
from support.s3_server import Bucket
from tiergate_client.errors import BackendThrottled, StorageUnavailable
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES, S3Settings
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.call_deadline import call_deadline
from tiergate_server.segments.object_store import ObjectStore

MIB = 1024 * 1024
CONTENT = os.urandom(6 * MIB + 7)


@pytest.fixture
def settings(bucket: Bucket) -> S3Settings:
    return bucket.settings(
        part_bytes=SMALLEST_PART_BYTES,
        multipart_threshold_bytes=MIB,
        connect_timeout_s=2,
        read_timeout_s=2,
        max_attempts=2,
    )


def test_thousands_of_keys_are_deleted_in_batches(settings: S3Settings, bucket: Bucket) -> None:
    present = [f"many/{number}" for number in range(0, 2010, 100)]
    with store_behind(settings, lambda _: None) as (store, proxy):
        for key in present:
            store.put_if_absent(key, b"")
        proxy.requests.clear()
        store.delete_many(f"many/{number}" for number in range(2010))
        assert len(proxy.requests) == 3
    assert bucket.stored_keys() == []


@pytest.mark.parametrize(
    ("code", "expected"), [("SlowDown", BackendThrottled), ("AccessDenied", StorageUnavailable), ("NoSuchKey", None)]
)
def test_key_that_cannot_be_deleted_is_told_after_all_were_tried(
    settings: S3Settings, code: str, expected: type[Exception] | None
) -> None:
    done = "".join(f"<Deleted><Key>tiered/here/k/{number}</Key></Deleted>" for number in range(1001) if number != 3)
    error = f"<Error><Key>tiered/here/k/3</Key><Code>{code}</Code><Message>no</Message></Error>"
    answer = Answer(f"<DeleteResult>{done}{error}</DeleteResult>".encode())
    first_batch = once(lambda request: answer if "delete" in request.query else None)
    rule = first_batch if expected is not BackendThrottled else lambda _: answer
    with store_behind(settings, rule) as (store, proxy):
        keys = [f"k/{number}" for number in range(1001)]
        if expected is None:
            store.delete_many(keys)
        else:
            with pytest.raises(expected, match=code):
                store.delete_many(keys)
        assert len(proxy.requests) == (2 * settings.max_attempts if expected is BackendThrottled else 2)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Refuse(503, "SlowDown"), BackendThrottled),
        (Refuse(500, "InternalError"), StorageUnavailable),
        (Refuse(403, "AccessDenied"), StorageUnavailable),
        (Refuse(404, "NoSuchBucket"), StorageUnavailable),
        (Reset(), StorageUnavailable),
        (Stall(), StorageUnavailable),
        (Truncate(0), StorageUnavailable),
        (Answer(b"<html>no S3 here</html>"), StorageUnavailable),
        (Answer(b"<html>no S3 here", status=502), StorageUnavailable),
    ],
)
def test_every_call_has_the_documented_error_in_a_bad_network_and_leaks_nothing(
    settings: S3Settings, bucket: Bucket, fault: Fault, expected: type[Exception]
) -> None:
    impatient = replace(settings, read_timeout_s=0.3)
    with closing(S3Store(settings)) as healthy:
        healthy.put_if_absent("a/b", b"content")
        handle = healthy.begin_partial("a/c", size_bytes=len(CONTENT))
    assert handle is not None
    calls: list[Callable[[ObjectStore], object]] = [
        lambda store: store.get("a/b"),
        lambda store: list(store.list("")),
        lambda store: list(store.list_partials("")),
        lambda store: store.open_partial("a/c", handle, size_bytes=len(CONTENT), block_crc32c=[0] * 22),
        lambda store: store.begin_partial("a/d", size_bytes=len(CONTENT)),
        lambda store: store.exists("a/b"),
        lambda store: store.delete_many(["a/other"]),
    ]
    calls_answered_without_a_body: list[Callable[[ObjectStore], object]] = [
        lambda store: store.put_if_absent("a/new", b"x"),
        lambda store: store.delete("a/other"),
        lambda store: store.end_partial("a/c", handle),
    ]
    with store_behind(impatient, lambda _: None) as (store, proxy):
        if not isinstance(fault, Truncate | Answer):
            calls += calls_answered_without_a_body
        store.check()
        proxy.rule = lambda _: fault
        for call in calls:
            with pytest.raises(expected):
                call(store)
    assert set(bucket.unfinished_uploads()) <= {"tiered/here/a/c", "tiered/here/a/d"}


def test_calls_stop_being_repeated_at_the_deadline_of_who_asked(settings: S3Settings) -> None:
    patient = replace(settings, max_attempts=100)
    with store_behind(patient, lambda _: Refuse(500, "InternalError")) as (store, proxy):
        begun = time.monotonic()
        with call_deadline(0.5), pytest.raises(StorageUnavailable):
            store.get("a/b")
        assert time.monotonic() - begun < 5
        assert 1 <= len(proxy.requests) < 100


def test_put_whose_answer_was_lost_is_taken_by_itself(settings: S3Settings) -> None:
    with store_behind(settings, lambda _: None) as (store, proxy):
        store.check()
        proxy.rule = once(lambda request: LoseAnswer() if request.method == "PUT" else None)
        assert not store.put_if_absent("a/b", b"mine")
        assert store.get("a/b") == b"mine"


def test_existence_in_a_bucket_that_is_gone_is_unknown_and_not_denied(settings: S3Settings) -> None:
    with (
        closing(S3Store(replace(settings, bucket="nobody-made-this"))) as store,
        pytest.raises(StorageUnavailable, match="create the bucket"),
    ):
        store.exists("a/b")


def test_not_found_in_other_words_than_those_of_s3_is_no_absent_object(settings: S3Settings) -> None:
    with store_behind(settings, lambda _: None) as (store, proxy):
        store.put_if_absent("a/b", b"content")
        proxy.rule = lambda _: Answer(b"<html>there is nothing here</html>", status=404)
        for call in (lambda: store.get("a/b"), lambda: store.exists("a/b")):
            with pytest.raises(StorageUnavailable):
                call()
        proxy.rule = once(proxy.rule)
        assert store.get("a/b") == b"content"


def test_answers_that_bring_a_few_bytes_each_are_not_asked_for_beyond_the_deadline(settings: S3Settings) -> None:
    with store_behind(settings, lambda _: None) as (store, proxy):
        store.put_if_absent("a/b", CONTENT[:MIB])
        proxy.rule = lambda _: Truncate(3)
        begun = time.monotonic()
        with call_deadline(0.5), pytest.raises(StorageUnavailable):
            store.get("a/b")
        assert time.monotonic() - begun < 5
