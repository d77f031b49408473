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
        missing = gaps(tiergate.admin.get_assignment())
    except TiergateError:
        return None
    if missing:
        warn(f"partial: this replica {' and '.join(missing)}", output)
    return bool(missing)


def gaps(assignment: Assignment) -> list[str]:
    """What the replica lacks, as the ends of sentences about it."""
    found = []
    hosted = assignment.hosted
    if len(hosted) < assignment.partition_count:
        found.append(f"hosts {len(hosted)} of {assignment.partition_count} metadata partitions")
    if unreadable := [partition.metadata_partition for partition in hosted if partition.corrupt_at is not None]:
        found.append(f"cannot read all of metadata partition {as_ranges(unreadable)}")
    if behind := [
        partition.metadata_partition for partition in hosted if not partition.ready and partition.corrupt_at is None
    ]:
        found.append(f"has not yet read metadata partition {as_ranges(behind)}")
    return found
