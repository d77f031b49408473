"""The calls of S3 that the store makes, through the SDK: the only module that knows it. What keys mean is not known.

Every call raises S3Failure and nothing else of the SDK. The SDK repeats calls that failed in passing, so the answer to
a conditional write may be 'taken' because an earlier attempt of the same call took the key and its answer was lost.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
from crc32c import crc32c

from tiergate_server.adapters.s3_errors import S3Failure
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


@dataclass(frozen=True, slots=True)
class SentPart:
    number: int
    etag: str
    checksum: str


@dataclass(frozen=True, slots=True)
class ListedObject:
    key: str
    size_bytes: int


class S3Body:
    """The bytes that a ranged read answers with, as they come."""

    def __init__(self, body: Any, *, length: int, etag: str) -> None:
        self._body = body
        self.length = length
        self.etag = etag

    def read(self, size: int) -> bytes:
        with _failures("GetObject"):
            data: bytes = self._body.read(size)
            return data

    def close(self) -> None:
        self._body.close()


class S3Client:
    """Safe to use from many threads."""

    def __init__(self, settings: S3Settings) -> None:
        self._bucket = settings.bucket
        with _failures("configure the client"):
            self._client: Any = boto3.session.Session().client(
                "s3",
                endpoint_url=settings.endpoint_url,
                region_name=settings.region,
                config=botocore.config.Config(
                    signature_version="s3v4",
                    s3={"addressing_style": "path" if settings.path_style else "auto"},
                    connect_timeout=settings.connect_timeout_s,
                    read_timeout=settings.read_timeout_s,
                    retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
                    max_pool_connections=settings.connections,
                    tcp_keepalive=True,
                    # Checksums are given with each write, and reads are verified against the manifest.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )

    def put_new(self, key: str, data: bytes | bytearray) -> None:
        """Stores an object unless the key is taken."""
        with _failures("PutObject"):
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=data, IfNoneMatch="*", ChecksumCRC32C=_checksum(data)
            )

    def begin_parts(self, key: str) -> str:
        """The id of a new multipart upload."""
        with _failures("CreateMultipartUpload"):
            answer = self._client.create_multipart_upload(Bucket=self._bucket, Key=key, ChecksumAlgorithm="CRC32C")
        upload_id: str = answer["UploadId"]
        return upload_id

    def send_part(self, key: str, upload_id: str, number: int, data: bytearray) -> SentPart:
        checksum = _checksum(data)
        with _failures("UploadPart"):
            answer = self._client.upload_part(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                Body=data,
                ChecksumCRC32C=checksum,
            )
        return SentPart(number, answer["ETag"], checksum)

    def complete_new(self, key: str, upload_id: str, parts: Sequence[SentPart]) -> None:
        """Makes an object of the parts unless the key is taken."""
        listed = [{"PartNumber": part.number, "ETag": part.etag, "ChecksumCRC32C": part.checksum} for part in parts]
        with _failures("CompleteMultipartUpload"):
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload_id, IfNoneMatch="*", MultipartUpload={"Parts": listed}
            )

    def end_parts(self, key: str, upload_id: str) -> None:
        with _failures("AbortMultipartUpload"):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)

    def exists(self, key: str) -> bool:
        try:
            with _failures("HeadObject"):
                self._client.head_object(Bucket=self._bucket, Key=key)
        except S3Failure as failure:
            if failure.is_absent_object:
                return False
            raise
        return True

    def open(self, key: str, *, first: int, end: int, etag: str | None = None) -> S3Body:
        """The bytes [first, end) of an object, or fewer; with an etag, only of the object that has it."""
        condition = {} if etag is None else {"IfMatch": etag}
        with _failures("GetObject"):
            answer = self._client.get_object(
                Bucket=self._bucket, Key=key, Range=f"bytes={first}-{end - 1}", **condition
            )
        return S3Body(answer["Body"], length=answer["ContentLength"], etag=answer["ETag"])

    def delete(self, key: str) -> None:
        with _failures("DeleteObject"):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def list(self, prefix: str) -> Iterator[ListedObject]:
        page: dict[str, str] = {}
        while True:
            with _failures("ListObjectsV2"):
                answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **page)
            for listed in answer.get("Contents", ()):
                yield ListedObject(listed["Key"], listed["Size"])
            if not answer.get("IsTruncated"):
                return
            page = {"ContinuationToken": answer["NextContinuationToken"]}

    def close(self) -> None:
        self._client.close()


def _checksum(data: bytes | bytearray) -> str:
    return base64.b64encode(crc32c(data).to_bytes(4, "big")).decode("ascii")


@contextmanager
def _failures(operation: str) -> Iterator[None]:
    try:
        yield
    except botocore.exceptions.ClientError as error:
        answer = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise S3Failure(str(answer.get("Code", status)), status, answer.get("Message", ""), operation) from error
    except _NO_CREDENTIALS as error:
        raise S3Failure("NoCredentials", 0, str(error), operation) from error
    except botocore.exceptions.ParamValidationError as error:
        raise S3Failure("InvalidBucketName", 0, str(error).replace("\n", " "), operation) from error
    except (botocore.exceptions.BotoCoreError, OSError) as error:
        raise S3Failure(type(error).__name__, 0, str(error), operation) from error
