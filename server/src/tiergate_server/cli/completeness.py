"""Whether a replica's list can be whole: it lists what it hosts and can read, which need not be all there is."""

from __future__ import annotations

from tiergate_client import Assignment
from tiergate_client.errors import TiergateError
from tiergate_server.cli.connection import Tiergate
from tiergate_server.cli.notices import warn
from tiergate_server.cli.session import OutputFormat
from tiergate_server.metadata.replica import as_ranges


def tell_whether_partial(tiergate: Tiergate, output: OutputFormat) -> bool | None:
    """Says on stderr what a list lacks. None when the replica does not tell."""
    try:
        gaps = _gaps(tiergate.admin.get_assignment())
    except TiergateError:
        return None
    if gaps:
        warn(f"partial: this replica {' and '.join(gaps)}", output)
    return bool(gaps)


def _gaps(assignment: Assignment) -> list[str]:
    gaps = []
    hosted = assignment.hosted
    if len(hosted) < assignment.partition_count:
        gaps.append(f"hosts {len(hosted)} of {assignment.partition_count} metadata partitions")
    if unreadable := [partition.metadata_partition for partition in hosted if partition.corrupt_at is not None]:
        gaps.append(f"cannot read all of metadata partition {as_ranges(unreadable)}")
    if behind := [
        partition.metadata_partition for partition in hosted if not partition.ready and partition.corrupt_at is None
    ]:
        gaps.append(f"has not yet read metadata partition {as_ranges(behind)}")
    return gaps
