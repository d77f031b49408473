"""How objects are written as the settings say, and which buckets are refused. Real S3 server."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from dataclasses import replace

import pytest

from support.s3_behind_proxy import store_behind
from support.s3_proxy import (
    Fault,
    Rule,
    S3Request,
    WithoutHeaders,
)
from support.s3_server import Bucket
from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES, S3Settings
from tiergate_server.config import load_config
from tiergate_server.object_stores import open_object_store
from tiergate_server.segments.object_store import ObjectStore, StoreRefused

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


def write_all(store: ObjectStore, key: str, content: bytes) -> bool:
    with store.upload(key) as upload:
        upload.write(content)
        return upload.commit()


UNCONDITIONAL = WithoutHeaders(frozenset({"if-none-match"}))


def ignores_conditions(request: S3Request) -> Fault:
    return UNCONDITIONAL


def ignores_conditions_of_completions(request: S3Request) -> Fault | None:
    return UNCONDITIONAL if request.is_completion else None


@pytest.mark.parametrize(
    ("rule", "operation"),
    [(ignores_conditions, "PutObject"), (ignores_conditions_of_completions, "CompleteMultipartUpload")],
)
def test_store_that_ignores_a_condition_is_refused_and_left_as_it_was(
    settings: S3Settings, bucket: Bucket, rule: Rule, operation: str
) -> None:
    with store_behind(settings, rule) as (store, _):
        with pytest.raises(StoreRefused, match=rf"ignores If-None-Match of {operation}.*cancelled copy.*unsafe"):
            store.check()
        with pytest.raises(StorageUnavailable, match="ignores If-None-Match"):
            store.begin_partial("a/b", size_bytes=len(CONTENT))
    assert (bucket.stored_keys(), bucket.unfinished_uploads()) == ([], [])


def test_store_without_conditions_is_accepted_when_it_is_asked_for_and_looks_before_it_writes(
    settings: S3Settings, bucket: Bucket
) -> None:
    with store_behind(replace(settings, conditional_writes=False), ignores_conditions) as (store, proxy):
        store.check()
        assert store.put_if_absent("a/small", b"first")
        assert not store.put_if_absent("a/small", b"second")
        assert write_all(store, "a/large", CONTENT)
        assert not write_all(store, "a/large", CONTENT[::-1])
        assert (store.get("a/small"), store.get("a/large")) == (b"first", CONTENT)
        assert not [request for request in proxy.requests if "if-none-match" in request.headers]
    assert bucket.unfinished_uploads() == []


@pytest.mark.parametrize(("setting", "warnings"), [("required", 0), ("unsafe", 1)])
def test_plane_says_at_its_start_what_is_lost_without_conditions(
    bucket: Bucket, caplog: pytest.LogCaptureFixture, setting: str, warnings: int
) -> None:
    settings = {
        "segments.store": f"s3://{bucket.name}",
        "segments.s3.endpoint_url": bucket.endpoint_url,
        "segments.s3.conditional_writes": setting,
    }
    config = load_config(environment={"HOME": "/"}, overrides=settings)
    with caplog.at_level(logging.WARNING), closing(open_object_store(config, config.default_store, threads=2)) as store:
        assert store.put_if_absent("a", b"")
    assert len([record for record in caplog.messages if "cancelled copy could come back" in record]) == warnings


def test_objects_are_written_with_encryption_storage_class_and_tags(settings: S3Settings, bucket: Bucket) -> None:
    """The server of the tests knows tags only: the other headers are seen on their way."""
    told = {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": "some-key",
        "x-amz-storage-class": "STANDARD_IA",
    }
    particular = replace(
        settings, sse="aws:kms", sse_kms_key_id="some-key", storage_class="STANDARD_IA", tags={"team": "a + b"}
    )
    with store_behind(particular, lambda _: WithoutHeaders(frozenset(told))) as (store, proxy):
        store.put_if_absent("a/small", b"")
        write_all(store, "a/large", CONTENT)
        assert store.begin_partial("a/partial", size_bytes=len(CONTENT))
        writes = [
            request
            for request in proxy.requests
            if (request.method == "PUT" and not request.is_part) or "uploads" in request.query
        ]
        assert len({request.key for request in writes}) == 4
        assert all(request.headers.items() >= told.items() for request in writes)
    for key in ("a/small", "a/large"):
        tags = bucket.client.get_object_tagging(Bucket=bucket.name, Key=f"tiered/here/{key}")["TagSet"]
        assert tags == [{"Key": "team", "Value": "a + b"}]
