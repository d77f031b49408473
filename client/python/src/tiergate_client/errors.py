"""The errors of Tiergate, raised alike in process and over the wire.

    TiergateError
    ├── InvalidField               a request breaks a rule; `details["field"]` names the place
    ├── SentDataCorrupt            bytes that were sent do not match their checksum
    ├── NotFound
    │   ├── SegmentNotFound
    │   ├── IndexNotFound
    │   └── TopicNotFound
    ├── SegmentConflict            same segment id, other content
    ├── PreconditionFailed
    │   ├── InvalidTransition      illegal step, or another writer was faster; `from` and `to`
    │   ├── LogChanged             the token belongs to another metadata log
    │   └── ReadOnly               this replica only follows
    ├── OffsetOutOfRange
    ├── Unavailable                try again, on any replica
    │   ├── MetadataNotReady
    │   ├── NotHosted
    │   ├── StorageUnavailable
    │   └── MetadataLogUnavailable
    ├── Exhausted
    │   ├── LimitExceeded          `limit` and `value`
    │   └── BackendThrottled
    ├── DataLoss
    │   ├── StoredDataCorrupt      stored bytes do not match their checksum
    │   ├── CorruptBatch
    │   └── MetadataCorrupt
    ├── CommitStateUnknown         published, but its fate is unknown in time
    ├── InvalidCredentials
    ├── PermissionDenied
    │   ├── NotAllowed
    │   ├── GrantExpired
    │   └── GrantInvalid
    ├── NotOffered
    ├── InternalError              `incident` is in the server's log
    ├── DeadlineExceeded           made by the client
    └── Cancelled                  made by the client

This module knows nothing of gRPC: `tiergate_client.status` maps these classes to codes and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from tiergate_client.values import ConsistencyToken


class TiergateError(Exception):
    """What every error is: one sentence, a reason that programs branch on, details that belong to the reason."""

    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, str] | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        self.retry_after_ms = retry_after_ms
        self.token: ConsistencyToken | None = None
        """How far the metadata log was applied by the replica that refused: what it saw is not to be unseen."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.message, self.details, self.retry_after_ms))


def _restore(
    kind: type[TiergateError], message: str, details: dict[str, str], retry_after_ms: int | None
) -> TiergateError:
    return kind(message, details=details, retry_after_ms=retry_after_ms)


class InvalidField(TiergateError):
    reason = "INVALID_FIELD"

    @classmethod
    def of(cls, field: str, message: str) -> Self:
        return cls(f"{field}: {message}", details={"field": field})

    def inside(self, parent: str) -> InvalidField:
        """The same complaint, seen from the message that holds the field."""
        inner = self.details.get("field", "")
        field = f"{parent}.{inner}" if inner else parent
        return InvalidField.of(field, self.message.removeprefix(f"{inner}: "))


class SentDataCorrupt(TiergateError):
    reason = "CHECKSUM_MISMATCH"


class NotFound(TiergateError):
    pass


class SegmentNotFound(NotFound):
    reason = "SEGMENT_NOT_FOUND"


class IndexNotFound(NotFound):
    reason = "INDEX_NOT_FOUND"


class TopicNotFound(NotFound):
    reason = "TOPIC_NOT_FOUND"


class SegmentConflict(TiergateError):
    reason = "SEGMENT_CONFLICT"


class PreconditionFailed(TiergateError):
    pass


class InvalidTransition(PreconditionFailed):
    reason = "INVALID_TRANSITION"


class LogChanged(PreconditionFailed):
    reason = "LOG_CHANGED"


class ReadOnly(PreconditionFailed):
    reason = "READ_ONLY"


class OffsetOutOfRange(TiergateError):
    reason = "OFFSET_OUT_OF_RANGE"


class Unavailable(TiergateError):
    pass


class MetadataNotReady(Unavailable):
    reason = "METADATA_NOT_READY"


class NotHosted(Unavailable):
    reason = "NOT_HOSTED"


class StorageUnavailable(Unavailable):
    reason = "STORAGE_UNAVAILABLE"


class MetadataLogUnavailable(Unavailable):
    reason = "METADATA_LOG_UNAVAILABLE"


class Exhausted(TiergateError):
    pass


class LimitExceeded(Exhausted):
    reason = "LIMIT_EXCEEDED"

    @classmethod
    def of(cls, limit: str, value: int, message: str, *, retry_after_ms: int | None = None) -> Self:
        return cls(message, details={"limit": limit, "value": str(value)}, retry_after_ms=retry_after_ms)


class BackendThrottled(Exhausted):
    reason = "BACKEND_THROTTLED"


class DataLoss(TiergateError):
    pass


class StoredDataCorrupt(DataLoss):
    reason = "CHECKSUM_MISMATCH"


class CorruptBatch(DataLoss):
    reason = "CORRUPT_BATCH"


class MetadataCorrupt(DataLoss):
    reason = "METADATA_CORRUPT"


class CommitStateUnknown(TiergateError):
    reason = "COMMIT_STATE_UNKNOWN"


class InvalidCredentials(TiergateError):
    reason = "INVALID_CREDENTIALS"


class PermissionDenied(TiergateError):
    pass


class NotAllowed(PermissionDenied):
    reason = "NOT_ALLOWED"


class GrantExpired(PermissionDenied):
    reason = "GRANT_EXPIRED"


class GrantInvalid(PermissionDenied):
    reason = "GRANT_INVALID"


class NotOffered(TiergateError):
    pass


class InternalError(TiergateError):
    reason = "INTERNAL_ERROR"


class DeadlineExceeded(TiergateError):
    pass


class Cancelled(TiergateError):
    pass
