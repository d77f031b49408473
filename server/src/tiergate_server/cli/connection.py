"""The one place where the command line connects to a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from tiergate_client.errors import InvalidField, TiergateError, Unavailable
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_server.addresses import Address

if TYPE_CHECKING:
    from tiergate_client import Assignment, LogId, OffsetRange, Record, TakenSnapshot, TopicId
    from tiergate_server.cli.session import Session

Plane = Literal["metadata", "segments"]

_PLANES: dict[Plane, tuple[str, str]] = {
    "metadata": ("metadata plane", "--target"),
    "segments": ("segment plane", "--segments"),
}
_GRPC_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "xds:")


class ServerInfo(Protocol):
    """What a plane says about itself."""

    @property
    def version(self) -> str: ...
    @property
    def plane(self) -> Plane: ...
    @property
    def backend(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def limits(self) -> Mapping[str, int]: ...
    @property
    def features(self) -> tuple[str, ...]: ...
    @property
    def metadata_address(self) -> str: ...
    @property
    def segments_address(self) -> str: ...
    @property
    def log_id(self) -> LogId | None: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


class Admin(Protocol):
    """What an operator asks of one replica."""

    def get_assignment(self) -> Assignment: ...
    def set_assignment(
        self, *, metadata_partitions: Sequence[int] = (), user_partitions: Sequence[tuple[TopicId, int]] = ()
    ) -> tuple[int, ...]: ...
    def take_snapshot(self) -> TakenSnapshot: ...


class RecordStream(Protocol):
    """Records in order, and what of the range is missing; `next_offset` is where another read goes on."""

    @property
    def next_offset(self) -> int: ...
    @property
    def stop_offset(self) -> int: ...
    @property
    def missing(self) -> tuple[OffsetRange, ...]: ...
    def __iter__(self) -> Iterator[Record]: ...


class Records(Protocol):
    """Reads of records."""

    def read_records(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: TopicId | None = None,
        start_offset: int | None = None,
        start_time_ms: int | None = None,
        stop_offset: int | None = None,
        stop_time_ms: int | None = None,
        isolation: str = "read_uncommitted",
        max_records: int | None = None,
        skip_missing: bool = False,
    ) -> AbstractContextManager[RecordStream]: ...


class Tiergate(Protocol):
    """The part of a client that commands use."""

    @property
    def metadata(self) -> RemoteLogMetadata: ...
    @property
    def storage(self) -> RemoteStorage: ...
    @property
    def records(self) -> Records: ...
    @property
    def admin(self) -> Admin: ...
    def server_info(self, plane: Plane) -> ServerInfo: ...
    def health(self, plane: Plane) -> bool: ...


Connector = Callable[["Session"], AbstractContextManager[Tiergate]]


class OutOfReach(Unavailable):
    """Nobody answers at a plane's address."""


def open_connection(session: Session) -> AbstractContextManager[Tiergate]:
    from tiergate_client import connect  # noqa: PLC0415 - gRPC takes a tenth of a second to import

    return connect(session.target, segments=session.segments, timeout_s=session.timeout_s, access=session.access)


def opened(session: Session) -> AbstractContextManager[Tiergate]:
    """A connection that nobody has tried yet. Raises InvalidField when an address cannot be one."""
    _require_address(session.target, "--target")
    if session.segments is not None:
        _require_address(session.segments, "--segments")
    return session.connector(session)


@contextmanager
def connected(session: Session) -> Iterator[Tiergate]:
    """A connection to the right planes. When one cannot be reached, the error says which and where it was expected."""
    with opened(session) as tiergate:
        try:
            _require_planes(session, tiergate)
            yield tiergate
        except Unavailable as error:
            if error.reason:  # the server itself said so, hence it was reached
                raise
            raise _out_of_reach(session, tiergate, error) from error


def wrong_plane(plane: Plane, address: str, info: ServerInfo) -> str:
    """What to tell when another plane than the wanted one answers at the address; empty when it is the right one."""
    if info.plane == plane:
        return ""
    name, option = _PLANES[plane]
    return f"{address} is a {_PLANES[info.plane][0]}; {option} wants the {name}"


def is_serving(tiergate: Tiergate, plane: Plane) -> bool:
    try:
        return tiergate.health(plane)
    except TiergateError:
        return False


def _out_of_reach(session: Session, tiergate: Tiergate, error: Unavailable) -> OutOfReach:
    """The client does not say which plane it missed: it is the segment plane when the metadata plane answers."""
    plane: Plane = "metadata"
    address = session.target
    if is_serving(tiergate, "metadata"):
        plane = "segments"
        address = session.segments or tiergate.server_info("metadata").segments_address
    name, option = _PLANES[plane]
    failure = OutOfReach(
        f"cannot reach the {name} at {address}; start one with `make run` or name another with {option}",
        details={"address": address, "cause": error.message},
    )
    for note in getattr(error, "__notes__", []):
        failure.add_note(note)
    return failure


def _require_planes(session: Session, tiergate: Tiergate) -> None:
    _require_plane("metadata", session.target, tiergate.server_info("metadata"))
    if session.segments is not None:
        try:
            info = tiergate.server_info("segments")
        except TiergateError:
            return  # not every command needs it, and one that does will say what is wrong
        _require_plane("segments", session.segments, info)


def _require_plane(plane: Plane, address: str, info: ServerInfo) -> None:
    if trouble := wrong_plane(plane, address, info):
        raise InvalidField(trouble, details={"field": _PLANES[plane][1], "address": address})


def _require_address(text: str, option: str) -> None:
    if text.startswith(_GRPC_SCHEMES):
        return
    try:
        address = Address.parse(text)
    except ValueError:
        address = None
    if address is None or not address.port:
        raise InvalidField.of(option, f"{text!r} is not host:port, such as 127.0.0.1:7400")
