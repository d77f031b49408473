"""`tiergate metadata assignment`: the metadata partitions that a replica hosts, shown and changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiergate_client import Assignment, HostedPartition
from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_server.cli.connection import connected
from tiergate_server.cli.console import Column, print_table, stdout_console, styled
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.metadata.replica import as_ranges

if TYPE_CHECKING:
    from rich.text import Text

_COLUMNS = (
    Column("PARTITION", "right"),
    Column("APPLIED OFFSET", "right"),
    Column("READY"),
    Column("UNREADABLE FROM", "right"),
)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_USER_PARTITION = re.compile(r"([\w-]+):(\d{1,9})")
_LONGEST_RANGE = 100_000


def assignment(
    context: typer.Context,
    *,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="LIST",
            help="Host these from now on: metadata partitions such as 0-9,12, and those of user partitions as "
            "TOPIC_ID:N.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Host every metadata partition from now on.")] = False,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Show the metadata partitions that the replica hosts, or change them until it restarts.

    It concerns the replica that --target names. What it starts with is its setting metadata.assignment.
    """
    if wanted is not None and everything:
        raise typer.BadParameter("give either this or --all", param_hint="--set")
    numbers, user_partitions = ([], []) if wanted is None else _parsed(wanted)
    with connected(session_of(context)) as tiergate:
        if wanted is not None or everything:
            tiergate.admin.set_assignment(metadata_partitions=numbers, user_partitions=user_partitions)
        current = tiergate.admin.get_assignment()
    if output is OutputFormat.JSON:
        print_json(assignment_document(current))
        return
    console = stdout_console()
    print_table(console, _COLUMNS, [_row(partition) for partition in current.hosted])
    hosted = as_ranges(partition.metadata_partition for partition in current.hosted)
    console.print(f"hosts {len(current.hosted)} of {current.partition_count} metadata partitions: {hosted}")


def assignment_document(current: Assignment) -> dict[str, Any]:
    return {
        "partition_count": current.partition_count,
        "hosted": [
            {
                "metadata_partition": partition.metadata_partition,
                "applied_offset": partition.applied_offset,
                "ready": partition.ready,
                "corrupt_at": partition.corrupt_at,
            }
            for partition in current.hosted
        ],
    }


def _row(partition: HostedPartition) -> tuple[str | Text, ...]:
    return (
        str(partition.metadata_partition),
        "-" if partition.applied_offset < 0 else str(partition.applied_offset),
        styled("yes", "green") if partition.ready else styled("no", "yellow"),
        "-" if partition.corrupt_at is None else styled(str(partition.corrupt_at), "red"),
    )


def _parsed(text: str) -> tuple[list[int], list[tuple[TopicId, int]]]:
    numbers: set[int] = set()
    user_partitions: list[tuple[TopicId, int]] = []
    for item in text.split(","):
        if span := _RANGE.fullmatch(item):
            first, last = int(span[1]), int(span[2] or span[1])
            if not 0 <= last - first < _LONGEST_RANGE:
                raise InvalidField.of("--set", f"{item} is no range of metadata partitions")
            numbers |= set(range(first, last + 1))
        elif named := _USER_PARTITION.fullmatch(item):
            user_partitions.append((TopicId.from_text(named[1]), int(named[2])))
        else:
            raise InvalidField.of("--set", f"{item!r} is neither a range such as 0-9 nor TOPIC_ID:N")
    return sorted(numbers), user_partitions
