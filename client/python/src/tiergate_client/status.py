"""The one table between Tiergate's errors and gRPC's status, used by the server forwards and by the client backwards.

Resolved by class, so that a subclass without a row of its own maps like its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast
from urllib.parse import unquote

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from tiergate.v1 import types_pb2
from tiergate_client import errors
from tiergate_client.conversions import token_from_proto, token_to_proto
from tiergate_client.values import ConsistencyToken

DOMAIN = "tiergate"
DETAILS_KEY = "grpc-status-details-bin"
PUSHBACK_KEY = "grpc-retry-pushback-ms"
CONSISTENCY_KEY = "tiergate-token-bin"
MAX_DETAILS_BYTES = 8000
_MAX_MESSAGE_BYTES = 1000
_MAX_VALUE_BYTES = 200
_MAX_KEY_BYTES = 64
_MAX_ENTRIES = 16
_NOT_CONNECTED = "cannot connect to"
_CANNOT_CONNECT = re.compile(r"ipv[46]:(?P<address>\S+): Failed to connect to remote host: (?P<why>[^;]+)$")

CODES: Mapping[type[errors.TiergateError], grpc.StatusCode] = {
    errors.InvalidField: grpc.StatusCode.INVALID_ARGUMENT,
    errors.SentDataCorrupt: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.SegmentNotFound: grpc.StatusCode.NOT_FOUND,
    errors.IndexNotFound: grpc.StatusCode.NOT_FOUND,
    errors.TopicNotFound: grpc.StatusCode.NOT_FOUND,
    errors.SegmentConflict: grpc.StatusCode.ALREADY_EXISTS,
    errors.PreconditionFailed: grpc.StatusCode.FAILED_PRECONDITION,
    errors.InvalidTransition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.LogChanged: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ReadOnly: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OffsetOutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.MetadataNotReady: grpc.StatusCode.UNAVAILABLE,
    errors.NotHosted: grpc.StatusCode.UNAVAILABLE,
    errors.StorageUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.MetadataLogUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.LimitExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.BackendThrottled: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DataLoss: grpc.StatusCode.DATA_LOSS,
    errors.StoredDataCorrupt: grpc.StatusCode.DATA_LOSS,
    errors.CorruptBatch: grpc.StatusCode.DATA_LOSS,
    errors.MetadataCorrupt: grpc.StatusCode.DATA_LOSS,
    errors.CommitStateUnknown: grpc.StatusCode.UNKNOWN,
    errors.InvalidCredentials: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    errors.GrantExpired: grpc.StatusCode.PERMISSION_DENIED,
    errors.GrantInvalid: grpc.StatusCode.PERMISSION_DENIED,
    errors.NotOffered: grpc.StatusCode.UNIMPLEMENTED,
    errors.InternalError: grpc.StatusCode.INTERNAL,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
}

_BY_CODE_AND_REASON = {(code, kind.reason): kind for kind, code in CODES.items()}

# A status without details is the transport's or a proxy's, one with an unknown reason is a newer server's: what it can
# mean at most.
_WITHOUT_DETAILS: Mapping[grpc.StatusCode, type[errors.TiergateError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidField,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.ALREADY_EXISTS: errors.SegmentConflict,
    grpc.StatusCode.FAILED_PRECONDITION: errors.PreconditionFailed,
    grpc.StatusCode.OUT_OF_RANGE: errors.OffsetOutOfRange,
    grpc.StatusCode.DATA_LOSS: errors.DataLoss,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Exhausted,
    grpc.StatusCode.UNIMPLEMENTED: errors.NotOffered,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    grpc.StatusCode.CANCELLED: errors.Cancelled,
    grpc.StatusCode.UNAUTHENTICATED: errors.InvalidCredentials,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDenied,
}


def code_of(error: errors.TiergateError) -> grpc.StatusCode:
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind]
    return grpc.StatusCode.INTERNAL


def to_status(error: errors.TiergateError) -> status_pb2.Status:
    """The error as google.rpc.Status; messages and details are cut so that it stays below 8 kB."""
    message = _cut(error.message, _MAX_MESSAGE_BYTES)
    entries = {
        _cut(key, _MAX_KEY_BYTES): _cut(value, _MAX_VALUE_BYTES)
        for key, value in list(error.details.items())[:_MAX_ENTRIES]
    }
    details = [_packed(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=entries))]
    if isinstance(error, errors.InvalidField):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=_cut(error.details.get("field", ""), _MAX_VALUE_BYTES), description=message
        )
        details.append(_packed(error_details_pb2.BadRequest(field_violations=[violation])))
    if error.retry_after_ms is not None:
        delay = Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    return status_pb2.Status(code=code_of(error).value[0], message=message, details=details)


def trailing_metadata(error: errors.TiergateError) -> tuple[tuple[str, str | bytes], ...]:
    """What goes out with a failed call. gRPC's own retries read only the pushback entry."""
    trailers: list[tuple[str, str | bytes]] = [(DETAILS_KEY, to_status(error).SerializeToString())]
    if error.retry_after_ms is not None:
        trailers.append((PUSHBACK_KEY, str(error.retry_after_ms)))
    if error.token is not None:
        trailers.append((CONSISTENCY_KEY, token_to_proto(error.token).SerializeToString()))
    return tuple(trailers)


def from_rpc_error(failure: grpc.RpcError) -> errors.TiergateError:
    """The error that the server raised, or the one that the transport's own status amounts to."""
    code = failure.code()
    trailers = dict(cast("Iterable[tuple[str, bytes]]", failure.trailing_metadata() or ()))
    if DETAILS_KEY in trailers:
        restored = _from_details(code, trailers[DETAILS_KEY])
        if restored is not None:
            restored.token = _token(trailers.get(CONSISTENCY_KEY))
            return restored
    message = _readable(failure.details() or code.name)
    if code is grpc.StatusCode.INTERNAL and "RST_STREAM" in message:  # the peer went away in mid-stream
        return errors.Unavailable(message)
    return _WITHOUT_DETAILS.get(code, errors.InternalError)(message)


def _readable(message: str) -> str:
    """The transport lists all that it tried; who asked wants to know where nobody answers, and why."""
    refused = _CANNOT_CONNECT.search(message)
    if refused is None:
        return message
    address, why = unquote(refused["address"]), refused["why"]
    return f"{_NOT_CONNECTED} {address} ({why}): start the service there, or give another address"


def never_connected(error: errors.TiergateError) -> bool:
    """Whether nothing was sent, by what the transport said."""
    said = error.message.lower()
    return type(error) is errors.Unavailable and (_NOT_CONNECTED in said or "failed to connect" in said)


def from_status(status: status_pb2.Status) -> errors.TiergateError:
    """The error behind one item of a batch."""
    code = next((code for code in grpc.StatusCode if code.value[0] == status.code), grpc.StatusCode.INTERNAL)
    return _from_status(code, status) or _WITHOUT_DETAILS.get(code, errors.InternalError)(status.message)


def _token(serialised: bytes | None) -> ConsistencyToken | None:
    try:
        return None if serialised is None else token_from_proto(types_pb2.ConsistencyToken.FromString(serialised))
    except (DecodeError, errors.InvalidField):
        return None


def _from_details(code: grpc.StatusCode, details: bytes) -> errors.TiergateError | None:
    try:
        return _from_status(code, status_pb2.Status.FromString(details))
    except (DecodeError, ValueError):  # a proxy's, or damaged: the status itself still counts
        return None


def _from_status(code: grpc.StatusCode, status: status_pb2.Status) -> errors.TiergateError | None:
    info = error_details_pb2.ErrorInfo()
    retry = error_details_pb2.RetryInfo()
    retry_after_ms = None
    for detail in status.details:
        if detail.Is(retry.DESCRIPTOR):
            detail.Unpack(retry)
            retry_after_ms = retry.retry_delay.ToMilliseconds()
        elif detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    if info.domain != DOMAIN:
        return None
    kind = _BY_CODE_AND_REASON.get((code, info.reason)) or _WITHOUT_DETAILS.get(code, errors.InternalError)
    return kind(status.message, details=dict(info.metadata), retry_after_ms=retry_after_ms)


def _cut(text: str, max_bytes: int) -> str:
    """The beginning of the text, without what UTF-8 can not carry: names of files may hold anything."""
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def _packed(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
