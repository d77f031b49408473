"""What answers of S3, and of stores that speak like it, mean to a caller. It knows codes, not the SDK."""

from __future__ import annotations

from tiergate_client.errors import BackendThrottled, StorageUnavailable, TiergateError

_RETRY_AFTER_MS = 1000
_THROTTLED_RETRY_AFTER_MS = 2000

_THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
_PASSING = frozenset(
    {"BadDigest", "InternalError", "RequestTimeout", "ServiceUnavailable", "XAmzContentChecksumMismatch"}
)
_PASSING_STATUS = frozenset({429, 500, 502, 503, 504})
# Not a bare 404: without S3's own words the bucket may be what is absent, or some proxy may have answered.
_NO_SUCH_KEY = frozenset({"NoSuchKey"})
_TAKEN = frozenset({"PreconditionFailed", "412"})
_CONFLICT = frozenset({"ConditionalRequestConflict", "OperationAborted", "409"})
_CREDENTIALS = "check the credentials that the SDK finds (environment, profile, or the machine's role)"
_TO_CHECK = {
    "NoSuchBucket": "check segments.store and create the bucket",
    "AccessDenied": "check what the credentials may do in this bucket",
    "AllAccessDisabled": "check the bucket and its account",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "NoCredentials": _CREDENTIALS,
    "XAdminUserNotFound": _CREDENTIALS,  # versitygw's word for InvalidAccessKeyId
    "AuthorizationHeaderMalformed": "check segments.s3.region",
    "PermanentRedirect": "check segments.s3.region and segments.s3.endpoint_url",
    "IllegalLocationConstraintException": "check segments.s3.region",
    "InvalidBucketName": "check segments.store",
    "InvalidEncryptionAlgorithmError": "check segments.s3.sse",
    "InvalidStorageClass": "check segments.s3.storage_class",
    "InvalidTag": "check segments.s3.tags",
    "KMS.DisabledException": "check segments.s3.sse_kms_key_id",
    "KMS.KMSInvalidStateException": "check segments.s3.sse_kms_key_id",
    "KMS.NotFoundException": "check segments.s3.sse_kms_key_id",
    "NotImplemented": "use a store that offers conditional writes, and the encryption, storage class and tags that are "
    "set",
    "RequestTimeTooSkewed": "set this machine's clock",
}


class S3Failure(Exception):
    """A call that S3 refused, or that did not reach it (then `status` is 0 and `code` says how it ended)."""

    def __init__(self, code: str, status: int, message: str, operation: str) -> None:
        super().__init__(f"{operation}: {code}, {message}")
        self.code = code
        self.status = status
        self.message = message

    @property
    def is_absent_object(self) -> bool:
        return self.code in _NO_SUCH_KEY

    @property
    def is_taken_key(self) -> bool:
        return self.code in _TAKEN

    @property
    def is_conflict(self) -> bool:
        return self.code in _CONFLICT

    @property
    def is_absent_upload(self) -> bool:
        return self.code == "NoSuchUpload"

    @property
    def is_stale_part(self) -> bool:
        return self.code == "InvalidPart"

    @property
    def is_passing(self) -> bool:
        """The same call may well succeed in a moment."""
        if self.status == 0 or self.code == str(self.status):  # no answer, or one without S3's own words
            return self.to_check is None
        return self.code in _THROTTLED or self.code in _PASSING or self.status in _PASSING_STATUS

    @property
    def is_beyond_the_end(self) -> bool:
        return self.code in {"InvalidRange", "416"} or self.status == 416

    @property
    def to_check(self) -> str | None:
        """What a person has to put right; None when it may pass by itself."""
        of_status = "check the credentials, and what they may do in this bucket" if self.status in {401, 403} else None
        return _TO_CHECK.get(self.code, of_status)

    def as_domain_error(self, action: str, *, place: str) -> TiergateError:
        """`action` completes the sentence 'the object store cannot'."""
        sentence = f"the object store {place} cannot {action}: {self.code}, {self.message.rstrip('.')}"
        if self.code in _THROTTLED or self.status == 429:
            return BackendThrottled(
                f"{sentence}; try again later, and with fewer calls", retry_after_ms=_THROTTLED_RETRY_AFTER_MS
            )
        return StorageUnavailable(
            f"{sentence}; {self.to_check or 'try again when it is in order'}", retry_after_ms=_RETRY_AFTER_MS
        )
