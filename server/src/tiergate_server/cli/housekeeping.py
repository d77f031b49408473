"""What `gc` and `rebuild` make sure of before they touch anything: that this metadata may judge these stores.

Each refusal is one sentence. What the commands do then is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import LogId
from tiergate_server.cli.completeness import gaps
from tiergate_server.cli.connection import Tiergate
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.segments.garbage_collection import holds_segments
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.store_marker import StoreMarkerV1, read_marker

Markers = Mapping[str, StoreMarkerV1 | None]


def refused(sentence: str) -> CommandFailed:
    return CommandFailed(sentence, exit_code=ExitCode.REFUSED)


def whole_log(tiergate: Tiergate) -> LogId:
    """The log that the metadata plane answers for, all of it."""
    info = tiergate.server_info("metadata")
    if not info.ready or info.log_id is None:
        raise CommandFailed(
            "the metadata plane has not caught up with its log: try again when `tiergate status` says it is ready",
            exit_code=ExitCode.OUT_OF_REACH,
        )
    if missing := gaps(tiergate.admin.get_assignment()):
        raise refused(
            f"the metadata plane's replica {' and '.join(missing)}, and so cannot say what is in use: ask one that "
            "knows everything"
        )
    return info.log_id


def is_empty(tiergate: Tiergate) -> bool:
    """Whether the log speaks of no partition."""
    return next(iter(tiergate.metadata.list_partitions()), None) is None


def read_markers(stores: Mapping[str, ObjectStore]) -> Markers:
    return {name: read_marker(store) for name, store in stores.items()}


def require_bound(markers: Markers, log_id: LogId, *, may_bind: bool) -> None:
    """Raises CommandFailed for a store that another log's metadata refers to, or nobody knows whose."""
    for name, marker in markers.items():
        if marker is None:
            if not may_bind:
                raise refused(
                    f"store {name} has no marker that says which metadata log it belongs to: bind it to {log_id} with "
                    "--bind, if no other one refers to its segments"
                )
        elif marker.log_id != log_id:
            raise refused(
                f"store {name} belongs to the metadata log {marker.log_id}, and the metadata plane is on {log_id}: "
                "check --target and segments.store"
            )
        elif marker.is_rebuilding:
            raise refused(
                f"store {name} is being rebuilt into its metadata log: run `tiergate rebuild` to its end first"
            )


def require_no_segments(stores: Mapping[str, ObjectStore], log_id: LogId) -> None:
    """For an empty log: beside one, every segment would look like garbage."""
    for name, store in stores.items():
        if holds_segments(store):
            raise refused(
                f"the metadata log {log_id} is empty and store {name} holds segments: read them back with "
                "`tiergate rebuild`, or point the metadata plane to its old log"
            )
