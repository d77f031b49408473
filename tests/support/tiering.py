"""Puts rolled segments of a broker's partition directory into the tier; which ones a test wants there is its choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tiergate_client.clock import system_clock
from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.segment_lifecycle import copy_segment
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.connection import Tiergate


def tier_segments(
    tiergate: Tiergate, directory: Path, *, first: int = 0, limit: int | None = None, with_snapshots: bool = True
) -> list[RemoteLogSegmentMetadata]:
    """Each under a new id, whatever is there: from the segment that holds the offset `first`, at most `limit`."""
    wanted = [one for one in PartitionDirectory.open(directory).rolled_segments() if one.end_offset >= first]
    return [_tier(tiergate, segment if with_snapshots else _without_snapshot(segment)) for segment in wanted[:limit]]


def _tier(tiergate: Tiergate, segment: LocalSegment) -> RemoteLogSegmentMetadata:
    return copy_segment(
        tiergate,
        segment,
        begun=None,
        broker_id=1,
        clock=system_clock,
        observe=lambda _: None,
        warn=lambda _: None,
    )


def _without_snapshot(segment: LocalSegment) -> LocalSegment:
    return replace(segment, data=replace(segment.data, producer_snapshot=None))
