"""Finds out whether a bucket can be used, by writing to it: what a store promises is only seen in what it does.

That a key is never replaced rests on `If-None-Match: *`, which some stores ignore: for a put, for the completion of a
multipart upload, or for both. The probes' own keys are removed again.
"""

from __future__ import annotations

from contextlib import suppress

from tiergate_server.adapters.s3_client import S3Client
from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.segments.object_store import StoreRefused

WHAT_IS_LOST = (
    "two copies of one segment at once could replace each other's manifest, and a cancelled copy could come back"
)


def probe(client: S3Client, name: str, *, place: str, needs_conditions: bool) -> None:
    """Writes to a name that nothing else uses. Raises StoreRefused when the bucket never will do, or else S3Failure."""
    try:
        _succeeds_to_put(client, name, b"first")
        replaced = _replaced_by(client, name) if needs_conditions else None
    except S3Failure as failure:
        if failure.to_check is None:
            raise
        raise StoreRefused(
            f"{place} cannot be used: {failure.code}, {failure.message.rstrip('.')}; {failure.to_check}"
        ) from failure
    finally:
        with suppress(S3Failure):
            client.delete(name)
    if replaced is not None:
        raise StoreRefused(
            f"{place} ignores If-None-Match of {replaced}, so {WHAT_IS_LOST}: use a store with conditional writes, or "
            f'accept that with segments.s3.conditional_writes = "unsafe"'
        )


def _replaced_by(client: S3Client, name: str) -> str | None:
    """The operation that replaces an object although it was told not to."""
    if _succeeds_to_put(client, name, b"second"):
        return "PutObject"
    if _succeeds_to_complete(client, name):
        return "CompleteMultipartUpload"
    return None


def _succeeds_to_put(client: S3Client, name: str, data: bytes) -> bool:
    try:
        client.put_new(name, data)
    except S3Failure as failure:
        if failure.is_taken_key:
            return False
        raise
    return True


def _succeeds_to_complete(client: S3Client, name: str) -> bool:
    upload_id = client.begin_parts(name)
    try:
        part = client.send_part(name, upload_id, 1, bytearray(b"third"))
        client.complete_new(name, upload_id, [part])
    except S3Failure as failure:
        if failure.is_taken_key:
            return False
        raise
    finally:
        with suppress(S3Failure):
            client.end_parts(name, upload_id)
    return True
