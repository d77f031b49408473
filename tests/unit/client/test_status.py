from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client import errors, status

# What every client and every document relies on: condition by condition, as the wire's rules list them.
ROWS = [
    (errors.InvalidField, "INVALID_ARGUMENT", "INVALID_FIELD"),
    (errors.SegmentNotFound, "NOT_FOUND", "SEGMENT_NOT_FOUND"),
    (errors.IndexNotFound, "NOT_FOUND", "INDEX_NOT_FOUND"),
    (errors.TopicNotFound, "NOT_FOUND", "TOPIC_NOT_FOUND"),
    (errors.InvalidTransition, "FAILED_PRECONDITION", "INVALID_TRANSITION"),
    (errors.LogChanged, "FAILED_PRECONDITION", "LOG_CHANGED"),
    (errors.MetadataCorrupt, "DATA_LOSS", "METADATA_CORRUPT"),
    (errors.SegmentConflict, "ALREADY_EXISTS", "SEGMENT_CONFLICT"),
    (errors.OffsetOutOfRange, "OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
    (errors.MetadataNotReady, "UNAVAILABLE", "METADATA_NOT_READY"),
    (errors.NotHosted, "UNAVAILABLE", "NOT_HOSTED"),
    (errors.StorageUnavailable, "UNAVAILABLE", "STORAGE_UNAVAILABLE"),
    (errors.MetadataLogUnavailable, "UNAVAILABLE", "METADATA_LOG_UNAVAILABLE"),
    (errors.LimitExceeded, "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED"),
    (errors.BackendThrottled, "RESOURCE_EXHAUSTED", "BACKEND_THROTTLED"),
    (errors.StoredDataCorrupt, "DATA_LOSS", "CHECKSUM_MISMATCH"),
    (errors.CorruptBatch, "DATA_LOSS", "CORRUPT_BATCH"),
    (errors.SentDataCorrupt, "INVALID_ARGUMENT", "CHECKSUM_MISMATCH"),
    (errors.CommitStateUnknown, "UNKNOWN", "COMMIT_STATE_UNKNOWN"),
    (errors.ReadOnly, "FAILED_PRECONDITION", "READ_ONLY"),
    (errors.InvalidCredentials, "UNAUTHENTICATED", "INVALID_CREDENTIALS"),
    (errors.NotAllowed, "PERMISSION_DENIED", "NOT_ALLOWED"),
    (errors.GrantExpired, "PERMISSION_DENIED", "GRANT_EXPIRED"),
    (errors.GrantInvalid, "PERMISSION_DENIED", "GRANT_INVALID"),
    (errors.NotOffered, "UNIMPLEMENTED", ""),
    (errors.InternalError, "INTERNAL", "INTERNAL_ERROR"),
    # Made by the client, but a server's or a proxy's status of that kind becomes the same.
    (errors.Unavailable, "UNAVAILABLE", ""),
    (errors.Exhausted, "RESOURCE_EXHAUSTED", ""),
    (errors.DeadlineExceeded, "DEADLINE_EXCEEDED", ""),
    (errors.Cancelled, "CANCELLED", ""),
]


class Failure(grpc.RpcError):
    """A failed call as a client meets it."""

    def __init__(
        self, code: grpc.StatusCode, message: str = "", trailers: tuple[tuple[str, str | bytes], ...] = ()
    ) -> None:
        super().__init__()
        self._code, self._message, self._trailers = code, message, trailers

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> Any:
        return self._trailers


def over_the_wire(error: errors.TiergateError) -> errors.TiergateError:
    return status.from_rpc_error(
        Failure(status.code_of(error), error.message, (("other", "x"), *status.trailing_metadata(error)))
    )


def concrete(kind: type[errors.TiergateError] = errors.TiergateError) -> Iterator[type[errors.TiergateError]]:
    """Every class but the root: the general ones stand for reasons that a newer server may give."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    if not children or kind is not errors.TiergateError:
        yield kind
    for child in children:
        yield from concrete(child)


CONCRETE = sorted(concrete(), key=lambda kind: kind.__name__)


def test_table_has_exactly_the_documented_rows() -> None:
    documented = {kind: (code, reason) for kind, code, reason in ROWS}
    with_reason = {kind for kind in status.CODES if kind.reason} | documented.keys()
    assert {kind: (status.CODES[kind].name, kind.reason) for kind in with_reason} == documented


def test_every_concrete_error_has_a_row() -> None:
    assert set(CONCRETE) == set(status.CODES)


def test_no_two_errors_share_code_and_reason() -> None:
    assert len({(code, kind.reason) for kind, code in status.CODES.items()}) == len(status.CODES)


@pytest.mark.parametrize("retry_after_ms", [None, 0, 1, 1500, 86_400_000])
@pytest.mark.parametrize("kind", CONCRETE)
def test_every_error_comes_back_as_itself(kind: type[errors.TiergateError], retry_after_ms: int | None) -> None:
    details = {"field": "partition.topic_id", "from": "COPY_STARTED", "grüße": "日本"}
    error = kind("Segment ä of 日本 is not there.", details=details, retry_after_ms=retry_after_ms)
    received = over_the_wire(error)
    assert type(received) is kind
    assert received.message == error.message
    assert received.details == details
    assert received.retry_after_ms == retry_after_ms


@pytest.mark.parametrize("kind", CONCRETE)
def test_every_error_survives_pickling(kind: type[errors.TiergateError]) -> None:
    error = kind("What happened.", details={"field": "x"}, retry_after_ms=5)
    received = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(received) is kind
    assert (received.message, received.details, received.retry_after_ms) == ("What happened.", {"field": "x"}, 5)


def test_error_without_a_row_maps_like_its_parent() -> None:
    class VeryMissing(errors.SegmentNotFound):
        pass

    assert status.code_of(VeryMissing("x")) is grpc.StatusCode.NOT_FOUND
    assert type(over_the_wire(VeryMissing("x"))) is errors.SegmentNotFound


def test_retry_hint_goes_out_for_grpc_itself_too() -> None:
    trailers = dict(status.trailing_metadata(errors.MetadataNotReady("x", retry_after_ms=250)))
    assert trailers[status.PUSHBACK_KEY] == "250"
    assert status.PUSHBACK_KEY not in dict(status.trailing_metadata(errors.MetadataNotReady("x")))


def test_invalid_field_carries_a_bad_request_that_any_client_understands() -> None:
    sent = status.to_status(errors.InvalidField.of("partition.topic", "it is empty"))
    bad_request = error_details_pb2.BadRequest()
    assert [detail.Unpack(bad_request) for detail in sent.details].count(True) == 1
    assert bad_request.field_violations[0].field == "partition.topic"
    assert bad_request.field_violations[0].description == "partition.topic: it is empty"


texts = st.text(st.characters(codec="utf-8"), max_size=20)
long_texts = st.tuples(texts, st.integers(0, 2000)).map(lambda pair: pair[0] * pair[1])


@pytest.mark.parametrize("kind", CONCRETE)
@pytest.mark.parametrize("character", ["a", "é", "日", "😀"])
def test_details_stay_below_the_limit_whatever_they_hold(kind: type[errors.TiergateError], character: str) -> None:
    details = {f"{number}{character * 10_000}": character * 10_000 for number in range(100)}
    details["field"] = character * 10_000
    error = kind(character * 10_000, details=details, retry_after_ms=2**53)
    assert len(status.to_status(error).SerializeToString()) <= status.MAX_DETAILS_BYTES
    assert type(over_the_wire(error)) is kind


@given(message=long_texts, details=st.dictionaries(long_texts, long_texts, max_size=5))
def test_cut_text_is_a_beginning_of_the_text(message: str, details: dict[str, str]) -> None:
    received = over_the_wire(errors.InvalidTransition(message, details=details))
    assert message.startswith(received.message)
    assert len(received.message) >= min(len(message), 200)
    assert len(status.to_status(errors.InvalidField(message, details=details)).SerializeToString()) <= 8000


def test_text_that_is_not_unicode_does_not_hide_the_error() -> None:
    # Names of files may hold bytes that are not text; Python shows them as lone surrogates.
    received = over_the_wire(errors.InvalidField.of("path\udcff", "no such file \udcff"))
    assert type(received) is errors.InvalidField
    assert received.message == "path?: no such file ?"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UNAVAILABLE", errors.Unavailable),
        ("RESOURCE_EXHAUSTED", errors.Exhausted),
        ("UNIMPLEMENTED", errors.NotOffered),
        ("DEADLINE_EXCEEDED", errors.DeadlineExceeded),
        ("CANCELLED", errors.Cancelled),
        ("UNAUTHENTICATED", errors.InvalidCredentials),
        ("PERMISSION_DENIED", errors.PermissionDenied),
        ("FAILED_PRECONDITION", errors.PreconditionFailed),
        ("DATA_LOSS", errors.DataLoss),
        ("OUT_OF_RANGE", errors.OffsetOutOfRange),
        ("INTERNAL", errors.InternalError),
        ("UNKNOWN", errors.InternalError),
        ("NOT_FOUND", errors.NotFound),
    ],
)
def test_status_of_the_transport_becomes_the_nearest_error(code: str, kind: type[errors.TiergateError]) -> None:
    received = status.from_rpc_error(Failure(grpc.StatusCode[code], "the transport says"))
    assert type(received) is kind
    assert received.message == "the transport says"
    assert type(status.from_rpc_error(Failure(grpc.StatusCode[code]))) is kind


def test_reset_stream_is_unavailable() -> None:
    failure = Failure(grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")
    assert type(status.from_rpc_error(failure)) is errors.Unavailable


def test_every_code_of_grpc_becomes_some_error() -> None:
    for code in grpc.StatusCode:
        assert isinstance(status.from_rpc_error(Failure(code, "x")), errors.TiergateError)


def test_details_of_another_domain_are_the_transport_s() -> None:
    info = error_details_pb2.ErrorInfo(reason="SEGMENT_NOT_FOUND", domain="elsewhere")
    foreign = status_pb2.Status(code=5, message="theirs")
    foreign.details.add().Pack(info)
    trailers = ((status.DETAILS_KEY, foreign.SerializeToString()),)
    received = status.from_rpc_error(Failure(grpc.StatusCode.UNAVAILABLE, "the transport says", trailers))
    assert type(received) is errors.Unavailable
    assert received.message == "the transport says"


def test_reason_of_a_newer_server_becomes_the_nearest_error() -> None:
    info = error_details_pb2.ErrorInfo(reason="NEW_REASON", domain=status.DOMAIN, metadata={"key": "value"})
    newer = status_pb2.Status(code=14, message="new")
    newer.details.add().Pack(info)
    trailers = ((status.DETAILS_KEY, newer.SerializeToString()),)
    received = status.from_rpc_error(Failure(grpc.StatusCode.UNAVAILABLE, "new", trailers))
    assert type(received) is errors.Unavailable
    assert received.details == {"key": "value"}


@given(junk=st.binary(min_size=1))
def test_damaged_details_do_not_hide_the_error(junk: bytes) -> None:
    failure = Failure(grpc.StatusCode.UNAVAILABLE, "the transport says", ((status.DETAILS_KEY, junk),))
    assert isinstance(status.from_rpc_error(failure), errors.Unavailable)


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        ("ipv4:127.0.0.1:17401", "127.0.0.1:17401"),
        ("ipv6:%5B::1%5D:7", "[::1]:7"),
    ],
)
def test_transport_that_can_not_connect_says_where_and_why(tried: str, told: str) -> None:
    said = (
        f"connections to all backends failing; last error: UNKNOWN: {tried}: Failed to connect to remote host: Refused"
    )
    error = status.from_rpc_error(Failure(grpc.StatusCode.UNAVAILABLE, said))
    assert type(error) is errors.Unavailable
    assert error.message == f"cannot connect to {told} (Refused): start the service there, or give another address"
    assert status.never_connected(error)


def test_what_else_the_transport_says_is_told_as_it_is() -> None:
    closed = status.from_rpc_error(Failure(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
    assert closed.message == "Socket closed"
    assert not status.never_connected(closed)
    assert status.never_connected(errors.Unavailable("failed to connect to all addresses"))
    assert not status.never_connected(errors.StorageUnavailable("cannot connect to the store at nowhere"))
