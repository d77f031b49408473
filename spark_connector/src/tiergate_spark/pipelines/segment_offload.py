"""The executors' side of an offload: takes one segment through its life, from its files to a finished copy.

It may be run any number of times, also at the same time, and leaves one finished copy. So a failed attempt is not
cleaned up: the next one, of this run or another, goes on behind what the store has kept.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from tiergate_client.clock import system_clock
from tiergate_client.errors import InvalidTransition, SegmentConflict, SegmentNotFound
from tiergate_client.local_log import LocalSegment, PartitionDirectory, UnreadablePartitionDirectory
from tiergate_client.segment_files import FileChecksum
from tiergate_client.segment_lifecycle import Tier, delete_segment, find_begun_copy, find_finished_copies
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_spark.options import Service
from tiergate_spark.pipelines.copy_ids import copy_ids
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.worker_client import worker_client

Result = Literal["copied", "continued", "skipped", "failed"]

_MOST_DELETED_COPIES: Final = 100


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """All that a task needs, beside the files themselves."""

    service: Service
    directory: PartitionDirectory
    """Cut down to one rolled segment."""
    known: tuple[RemoteLogSegmentMetadata, ...]
    """What the tier knew of these offsets when the run was planned."""
    broker_id: int


@dataclass(frozen=True, slots=True)
class SegmentOutcome:
    """What became of one segment."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int
    result: Result
    segment_id: str | None = None
    warning: str | None = None
    failure: str | None = None


def offload_segment(task: SegmentTask) -> SegmentOutcome:
    """Waits for a tier that is away; raises its errors, for Spark to try again.

    Files that are not as they should be are an outcome.
    """
    ((base_offset, end_offset),) = task.directory.rolled_bounds
    place = task.directory.partition
    outcome = SegmentOutcome(place.topic, place.partition, base_offset, end_offset, 0, "failed")
    try:
        (segment,) = task.directory.rolled_segments()
    except UnreadablePartitionDirectory as error:
        return replace(outcome, failure=str(error))
    except FileNotFoundError as error:
        return replace(
            outcome, failure=f"{error.filename} is not there for an executor; use a file system that all of them share"
        )
    outcome = replace(outcome, size_bytes=segment.size_bytes)
    subject = f"{place.topic}-{place.partition} {base_offset} - {end_offset}"
    return ridden_out(lambda: _tiered(task, segment, outcome), subject=subject)


def _tiered(task: SegmentTask, segment: LocalSegment, outcome: SegmentOutcome) -> SegmentOutcome:
    """The same copy goes on when it is run again: its id follows from its content, or `known` has it."""
    tier = worker_client(task.service)
    present = find_finished_copies(tier, segment, _in_state(task.known, SegmentState.COPY_FINISHED))
    if present.same is not None:
        return replace(outcome, result="skipped", segment_id=str(present.same.segment_id))
    begun = find_begun_copy(tier, segment, _in_state(task.known, SegmentState.COPY_STARTED))
    copy = _finished(tier, begun, segment) if begun else _copied(tier, segment, broker_id=task.broker_id)
    return replace(
        outcome,
        result="copied" if begun is None else "continued",
        segment_id=str(copy.segment_id),
        warning=_about_others(segment, present.others) if present.others else None,
    )


def _copied(tier: Tier, segment: LocalSegment, *, broker_id: int) -> RemoteLogSegmentMetadata:
    announced = segment.new_metadata(broker_id=broker_id, event_timestamp_ms=system_clock())
    log = segment.data.manifest(announced).log
    for segment_id in islice(copy_ids(segment, log), _MOST_DELETED_COPIES):
        started = replace(announced, segment_id=segment_id)
        try:
            tier.metadata.add_segment(started)
        except InvalidTransition:
            twin = _finished_by_another(tier, segment, started)
            if twin is not None:
                return twin
            continue
        try:
            return _finished(tier, started, segment)
        except SegmentConflict:
            twin = _stored_by_another(tier, started, log)
            if twin is not None:
                return twin
    raise SegmentConflict(
        f"{segment.log}: {_MOST_DELETED_COPIES} copies of it were deleted; copy it with `tiergate put`"
    )


def _finished(tier: Tier, started: RemoteLogSegmentMetadata, segment: LocalSegment) -> RemoteLogSegmentMetadata:
    """Sends what is missing, and says so to the metadata; both are fine when another attempt has done it already."""
    return _told_finished(tier, started, tier.storage.copy_segment(started, segment.data))


def _told_finished(tier: Tier, started: RemoteLogSegmentMetadata, custom_metadata: bytes) -> RemoteLogSegmentMetadata:
    finish = started.step(
        SegmentState.COPY_FINISHED, event_timestamp_ms=system_clock(), custom_metadata=custom_metadata
    )
    tier.metadata.update_segment(finish)
    return started.updated_by(finish)


def _finished_by_another(
    tier: Tier, segment: LocalSegment, started: RemoteLogSegmentMetadata
) -> RemoteLogSegmentMetadata | None:
    try:
        found = tier.metadata.get_segment(started.segment_id, partition=started.partition)
    except SegmentNotFound:
        return None
    is_finished = found.state is SegmentState.COPY_FINISHED
    return find_finished_copies(tier, segment, [found]).same if is_finished else None


def _stored_by_another(
    tier: Tier, started: RemoteLogSegmentMetadata, log: FileChecksum
) -> RemoteLogSegmentMetadata | None:
    """Finishes what lies under the id: a replica's copy, whose log is the same though its indexes are not.

    None when the id is of no use any more.
    """
    try:
        stored = tier.storage.get_manifest(started)
    except SegmentNotFound:  # deleted while its copy was under way, some time: the store takes it no more
        _withdraw(tier, started)
        return None
    if stored.log != log:
        return None
    try:
        custom_metadata = tier.storage.get_upload(stored).custom_metadata
        return None if custom_metadata is None else _told_finished(tier, started, custom_metadata)
    except (SegmentConflict, SegmentNotFound, InvalidTransition):  # it is deleted in this moment
        return None


def _withdraw(tier: Tier, started: RemoteLogSegmentMetadata) -> None:
    """Ends a copy that can never be finished. One that somebody calls finished is not ours to delete."""
    with suppress(SegmentNotFound):  # another attempt was faster
        if (
            tier.metadata.get_segment(started.segment_id, partition=started.partition).state
            is SegmentState.COPY_STARTED
        ):
            delete_segment(tier, started, clock=system_clock)


def _in_state(known: tuple[RemoteLogSegmentMetadata, ...], state: SegmentState) -> list[RemoteLogSegmentMetadata]:
    return [one for one in known if one.state is state]


def _about_others(segment: LocalSegment, others: tuple[RemoteLogSegmentMetadata, ...]) -> str:
    ids = ", ".join(str(other.segment_id) for other in others)
    return (
        f"{segment.partition.topic}-{segment.partition.partition} {segment.base_offset} - {segment.end_offset}: "
        f"already finished with another log as {ids}; compare them with `tiergate show` and remove the wrong one"
    )
