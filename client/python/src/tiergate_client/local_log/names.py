"""How the files of a partition directory are named: 20 digits of an offset and a suffix, or a name of their own."""

from __future__ import annotations

import re

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_LOG_NAME = re.compile(r"(\d{20})\.log")
_INDEX_NAME = re.compile(r"(\d{20})\.(?:index|timeindex|txnindex)")
_DIRECTORY_NAME = re.compile(r"(.+)-(\d+)")


def file_name(offset: int, suffix: str) -> str:
    """A segment's files carry its base offset; a snapshot carries the offset up to which it is valid, exclusive."""
    return f"{offset:020d}{suffix}"


def base_offset_of_log(name: str) -> int | None:
    """The base offset when this is the name of a log. Logs being cleaned or deleted carry one more suffix."""
    match = _LOG_NAME.fullmatch(name)
    return int(match[1]) if match else None


def base_offset_of_index(name: str) -> int | None:
    """The base offset of the segment when this is the name of one of its indexes."""
    match = _INDEX_NAME.fullmatch(name)
    return int(match[1]) if match else None


def topic_and_partition_of(directory_name: str) -> tuple[str, int] | None:
    """`orders-eu-3` is partition 3 of `orders-eu`."""
    match = _DIRECTORY_NAME.fullmatch(directory_name)
    return (match[1], int(match[2])) if match else None
