"""What `tiergate put` finds beside its way and says, without stopping for it: other segments of the same offsets."""

from __future__ import annotations

from collections.abc import Sequence

from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.console import counted, offsets_text


def about_unfinished(segment: LocalSegment, earlier: RemoteLogSegmentMetadata) -> str:
    """Whether its writer is still at work cannot be known, hence it is not removed unasked."""
    return (
        f"{_offsets(segment)}: an earlier copy of them, {earlier.segment_id}, was started and not finished; unless it "
        f"is still under way, remove it with `tiergate rm {earlier.segment_id}`"
    )


def about_other_content(
    segment: LocalSegment, others: Sequence[RemoteLogSegmentMetadata], *, copy: RemoteLogSegmentMetadata | None
) -> str | None:
    """Nothing when no other segment holds these offsets. Without a copy, what would be after one."""
    if not others:
        return None
    ids = ", ".join(str(other.segment_id) for other in others)
    count = counted(len(others) + 1, "segment")
    hold = f"with {copy.segment_id} {count} now hold" if copy else f"after a copy {count} would hold"
    return (
        f"{_offsets(segment)}: already finished with another log checksum as {ids}; {hold} these offsets, compare "
        "them with `tiergate show` and remove the wrong one with `tiergate rm`"
    )


def _offsets(segment: LocalSegment) -> str:
    name = f"{segment.partition.topic}-{segment.partition.partition}"
    return f"{name} {offsets_text(segment.base_offset, segment.end_offset)}"
