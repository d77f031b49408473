"""The calls of S3 that the store makes, through the SDK: the only module that knows it. What keys mean is not known.

Every call raises S3Failure and nothing else of the SDK. Calls that failed in passing are repeated, so the answer to a
conditional write may be 'taken' because an earlier attempt of the same call took the key and its answer was lost.

What is written is not signed, only its CRC-32C is: that is known before the bytes of a part are there, and signing
them took a third of the processor time of an upload.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import botocore.parsers
from crc32c import crc32c

from tiergate_server.adapters.s3_errors import S3Failure
from tiergate_server.adapters.s3_part_body import PartBody, PartDropped
from tiergate_server.adapters.s3_retries import comes_true, with_retries
from tiergate_server.adapters.s3_settings import S3Settings

# Their debug messages hold signatures and session tokens, whatever level the rest of the server logs at.
for _name in ("boto3", "botocore", "s3transfer", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.ProfileNotFound,
)

# Something over a minute.
_MOST_LOOKS = 32

# What a whole answer has. The SDK takes one of which no byte came for one that says nothing: an empty listing.
_ALWAYS_TOLD = {
    "complete_multipart_upload": "ETag",
    "create_multipart_upload": "UploadId",
    "get_object": "ETag",
    "list_multipart_uploads": "IsTruncated",
    "list_objects_v2": "IsTruncated",
    "list_parts": "IsTruncated",
    "put_object": "ETag",
    "upload_part": "ETag",
}


@dataclass(frozen=True, slots=True)
class SentPart:
    number: int
    etag: str
    checksum: str


@dataclass(frozen=True, slots=True)
class ListedObject:
    key: str
    size_bytes: int
    modified_at_ms: int


@dataclass(frozen=True, slots=True)
class ListedUpload:
    key: str
    upload_id: str
    begun_at_ms: int


@dataclass(frozen=True, slots=True)
class ListedPart:
    number: int
    size_bytes: int
    etag: str
    checksum: str | None
    """None: the store does not tell."""
    sent_at_ms: int


class S3Body:
    """The bytes that a ranged read answers with, as they come."""

    def __init__(self, body: Any, *, length: int, etag: str) -> None:
        self._body = body
        self._left_bytes = length
        self.length = length
        self.etag = etag
        # The SDK's own `readinto` reads to another place and copies: a fifth of the processor time of a download.
        self._pooled: Any = getattr(body, "_raw_stream", None)
        response = getattr(self._pooled, "_fp", None)
        self._is_past_the_sdk = isinstance(response, HTTPResponse)
        self._source: Any = response if self._is_past_the_sdk else body

    def read_into(self, place: memoryview) -> int:
        """Fills the place; fewer bytes only at the end, expected or not."""
        with _failures("GetObject"):
            read_bytes: int = self._source.readinto(place)
        self._left_bytes -= read_bytes
        if self._is_past_the_sdk and self._left_bytes == 0:
            self._pooled.release_conn()  # as the SDK does when it is the one who sees the end
        return read_bytes

    def close(self) -> None:
        self._body.close()


class S3Client:
    """Safe to use from many threads."""

    def __init__(self, settings: S3Settings) -> None:
        self._bucket = settings.bucket
        self._max_attempts = settings.max_attempts
        self._is_conditional = settings.conditional_writes
        self._stored_as = settings.stored_as
        with _failures("configure the client"):
            sdk_client = partial(
                boto3.session.Session().client,
                "s3",
                region_name=settings.region,
                config=botocore.config.Config(
                    signature_version="s3v4",
                    s3={
                        "addressing_style": "path" if settings.path_style else "auto",
                        "payload_signing_enabled": False,
                    },
                    connect_timeout=settings.connect_timeout_s,
                    read_timeout=settings.read_timeout_s,
                    retries={"mode": "standard", "total_max_attempts": 1},
                    max_pool_connections=settings.connections,
                    tcp_keepalive=True,
                    # Checksums are given with each write, and reads are verified against the manifest.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
            self._client: Any = sdk_client(endpoint_url=settings.endpoint_url)
            self._presigner: Any = self._client
            if settings.public_endpoint_url is not None:
                self._presigner = sdk_client(endpoint_url=settings.public_endpoint_url)

    def put_new(self, key: str, data: bytes | bytearray) -> None:
        """Stores an object unless the key is taken."""
        checksum = checksum_text(crc32c(data))
        condition = self._only_if_new(key)
        self._call("put_object", Key=key, Body=data, ChecksumCRC32C=checksum, **condition, **self._stored_as)

    def begin_parts(self, key: str) -> str:
        """The id of a new multipart upload."""
        upload_id: str = self._call("create_multipart_upload", Key=key, ChecksumAlgorithm="CRC32C", **self._stored_as)[
            "UploadId"
        ]
        return upload_id

    def send_part(self, key: str, upload_id: str, number: int, data: bytearray) -> SentPart:
        checksum = checksum_text(crc32c(data))
        answer = self._call(
            "upload_part", Key=key, UploadId=upload_id, PartNumber=number, Body=data, ChecksumCRC32C=checksum
        )
        return SentPart(number, answer["ETag"], checksum)

    def stream_part(self, key: str, upload_id: str, number: int, body: PartBody, checksum: str) -> SentPart:
        """Sends a part while it is received. Raises PartDropped."""
        answer = self._call(
            "upload_part",
            body.rewind_when_whole,
            Key=key,
            UploadId=upload_id,
            PartNumber=number,
            Body=body,
            ContentLength=body.size_bytes,
            ChecksumCRC32C=checksum,
        )
        return SentPart(number, answer["ETag"], checksum)

    def complete_new(self, key: str, upload_id: str, parts: Sequence[SentPart]) -> None:
        """Makes an object of the parts unless the key is taken, and returns when it is there."""
        listed = [{"PartNumber": part.number, "ETag": part.etag, "ChecksumCRC32C": part.checksum} for part in parts]
        condition = self._only_if_new(key)
        self._call(
            "complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload={"Parts": listed}, **condition
        )
        # While one attempt is being served, versitygw calls any other one a success: the object may come later, or not.
        if not comes_true(partial(self.exists, key), max_looks=_MOST_LOOKS):
            raise S3Failure("NotComplete", 0, "its parts are not put together yet", "CompleteMultipartUpload")

    def end_parts(self, key: str, upload_id: str) -> None:
        self._call("abort_multipart_upload", Key=key, UploadId=upload_id)

    def list_parts(self, key: str, upload_id: str) -> Iterator[ListedPart]:
        page: dict[str, int] = {}
        while True:
            answer = self._call("list_parts", Key=key, UploadId=upload_id, **page)
            for listed in answer.get("Parts", ()):
                yield ListedPart(
                    listed["PartNumber"],
                    listed["Size"],
                    listed["ETag"],
                    listed.get("ChecksumCRC32C"),
                    _milliseconds(listed["LastModified"]),
                )
            if not answer.get("IsTruncated"):
                return
            page = {"PartNumberMarker": answer["NextPartNumberMarker"]}

    def list_uploads(self, prefix: str) -> Iterator[ListedUpload]:
        page: dict[str, str] = {}
        while True:
            answer = self._call("list_multipart_uploads", Prefix=prefix, **page)
            for listed in answer.get("Uploads", ()):
                yield ListedUpload(listed["Key"], listed["UploadId"], _milliseconds(listed["Initiated"]))
            if not answer.get("IsTruncated"):
                return
            page = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}

    def exists(self, key: str) -> bool:
        """Reads a byte, since the answer to HeadObject would not tell an absent object from an absent bucket."""
        try:
            answer = self._call("get_object", Key=key, Range="bytes=0-0")
            with _failures("GetObject"):
                answer["Body"].read()
        except S3Failure as failure:
            if failure.is_absent_object:
                return False
            if not failure.is_beyond_the_end:
                raise
        return True

    def open(self, key: str, *, first: int, end: int, etag: str | None = None) -> S3Body:
        """The bytes [first, end) of an object, or fewer; with an etag, only of the object that has it."""
        condition = {} if etag is None else {"IfMatch": etag}
        answer = self._call("get_object", Key=key, Range=f"bytes={first}-{end - 1}", **condition)
        return S3Body(answer["Body"], length=answer["ContentLength"], etag=answer["ETag"])

    def presigned(self, key: str, *, valid_s: int) -> str:
        with _failures("presign GetObject"):
            url: str = self._presigner.generate_presigned_url(
                "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=valid_s
            )
            return url

    def delete(self, key: str) -> None:
        self._call("delete_object", Key=key)

    def delete_batch(self, keys: Sequence[str]) -> None:
        """At most 1,000 of them; raises the failure of one when all were tried."""
        remaining = list(keys)
        if not remaining:
            return  # S3 takes no empty list

        def attempt() -> None:
            nonlocal remaining
            with _failures("DeleteObjects"):
                wanted = {"Objects": [{"Key": key} for key in remaining]}
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=wanted)
            failures = {key: _broken_off("DeleteObjects") for key in remaining}
            for deleted in answer.get("Deleted", ()):
                failures.pop(deleted["Key"], None)
            for error in answer.get("Errors", ()):
                code, message = error.get("Code", ""), error.get("Message", "")
                failures[error["Key"]] = S3Failure(code, 200, message, "DeleteObjects")
            remaining = [key for key, failure in failures.items() if not failure.is_absent_object]
            if remaining:
                raise next((failures[key] for key in remaining if failures[key].is_passing), failures[remaining[0]])

        with_retries(attempt, max_attempts=self._max_attempts)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ListedObject]:
        page = {"StartAfter": after} if after else {}
        while True:
            answer = self._call("list_objects_v2", Prefix=prefix, **page)
            for listed in answer.get("Contents", ()):
                yield ListedObject(listed["Key"], listed["Size"], _milliseconds(listed["LastModified"]))
            if not answer.get("IsTruncated"):
                return
            page = {"ContinuationToken": answer["NextContinuationToken"]}

    def close(self) -> None:
        self._client.close()

    def _call(self, method: str, before_repeat: Callable[[], None] | None = None, /, **arguments: Any) -> Any:
        def attempt() -> Any:
            operation = self._client.meta.method_to_api_mapping[method]
            with _failures(operation):
                answer = getattr(self._client, method)(Bucket=self._bucket, **arguments)
            if _ALWAYS_TOLD.get(method, "ResponseMetadata") not in answer:
                raise _broken_off(operation)
            return answer

        return with_retries(attempt, max_attempts=self._max_attempts, before_repeat=before_repeat)

    def _only_if_new(self, key: str) -> dict[str, str]:
        if self._is_conditional:
            return {"IfNoneMatch": "*"}
        if self.exists(key):
            raise S3Failure("PreconditionFailed", 412, "the key is taken", "GetObject")
        return {}


def checksum_text(crc: int) -> str:
    """A CRC-32C as S3 writes it."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def _broken_off(operation: str) -> S3Failure:
    return S3Failure("IncompleteBody", 0, "the answer ended before its last byte", operation)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


@contextmanager
def _failures(operation: str) -> Iterator[None]:
    try:
        yield
    except botocore.exceptions.ClientError as error:
        answer = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = answer.get("Message") or "and no more was said"
        raise S3Failure(str(answer.get("Code") or status), status, message, operation) from error
    except _NO_CREDENTIALS as error:
        raise S3Failure("NoCredentials", 0, str(error), operation) from error
    except botocore.exceptions.ParamValidationError as error:
        raise S3Failure("InvalidBucketName", 0, str(error).replace("\n", " "), operation) from error
    except botocore.exceptions.HTTPClientError as error:
        if isinstance(error.kwargs.get("error"), PartDropped):
            raise PartDropped(str(error)) from error
        raise S3Failure(type(error).__name__, 0, str(error), operation) from error
    except (botocore.exceptions.BotoCoreError, botocore.parsers.ResponseParserError, HTTPException, OSError) as error:
        raise S3Failure(type(error).__name__, 0, str(error), operation) from error
