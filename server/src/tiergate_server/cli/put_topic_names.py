"""Refuses to put a topic under another name than the one it has."""

from __future__ import annotations

from collections.abc import Iterable

from tiergate_client.exit_codes import ExitCode
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.local_log.topic_names import find_other_name
from tiergate_server.cli.connection import Tiergate
from tiergate_server.cli.failures import CommandFailed


def refuse_other_names(tiergate: Tiergate, directories: Iterable[PartitionDirectory]) -> None:
    other = find_other_name(tiergate.metadata, directories)
    if other is not None:
        raise CommandFailed(f"{other}; put it with `--topic {other.known_as}`", exit_code=ExitCode.REFUSED)
