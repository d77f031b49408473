"""The life of a segment as a broker leads it: announced, copied, finished, and on failure or request deleted.

It calls the two interfaces in the right order; what a person sees of it is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from tiergate_client.clock import Clock
from tiergate_client.errors import SegmentConflict, SegmentNotFound, TiergateError
from tiergate_client.ids import SegmentId
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import FileChecksum, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState


class Tier(Protocol):
    """What `connect` gives: both interfaces of one service."""

    @property
    def metadata(self) -> RemoteLogMetadata: ...

    @property
    def storage(self) -> RemoteStorage: ...


Observer = Callable[[int], None]
"""Told how many bytes of a segment were sent so far; fewer than before when a copy begins again."""


@dataclass(frozen=True, slots=True)
class FinishedCopies:
    """Finished segments with the offsets of a local one: the same in epochs and log, and those with another log."""

    same: RemoteLogSegmentMetadata | None
    others: tuple[RemoteLogSegmentMetadata, ...] = ()


def find_finished_copies(
    tiergate: Tier, segment: LocalSegment, finished: list[RemoteLogSegmentMetadata]
) -> FinishedCopies:
    local_log: FileChecksum | None = None
    others = []
    for candidate in filter(segment.has_offsets_of, finished):
        try:
            stored_log = tiergate.storage.get_manifest(candidate).log
        except SegmentNotFound:
            continue  # the metadata outlived the bytes: only a new copy helps
        if local_log is None and stored_log.size_bytes == segment.size_bytes:  # otherwise it need not be read
            local_log = segment.data.manifest(candidate).log
        if stored_log != local_log:
            others.append(candidate)
        elif segment.is_described_by(candidate):
            return FinishedCopies(candidate)
    return FinishedCopies(None, tuple(others))


def find_begun_copy(
    tiergate: Tier, segment: LocalSegment, unfinished: list[RemoteLogSegmentMetadata]
) -> RemoteLogSegmentMetadata | None:
    """A copy of exactly this content that was not finished, and of which the store has kept something."""
    for candidate in filter(segment.is_described_by, unfinished):
        try:
            progress = tiergate.storage.get_upload(segment.data.manifest(candidate))
        except SegmentConflict:  # other content took the id, or it was deleted
            continue
        if progress.custom_metadata is not None or any(progress.committed_bytes.values()):
            return candidate
    return None


@dataclass(frozen=True, slots=True)
class LeftOverSegment:
    """What a copy that failed has left behind, since its clean-up failed too."""

    segment_id: SegmentId
    reason: str

    def __str__(self) -> str:
        return f"the clean-up of segment {self.segment_id} failed too ({self.reason}); remove it later"


def copy_segment(
    tiergate: Tier,
    segment: LocalSegment,
    *,
    begun: RemoteLogSegmentMetadata | None,
    broker_id: int,
    clock: Clock,
    observe: Observer,
    warn: Callable[[LeftOverSegment], None],
) -> RemoteLogSegmentMetadata:
    """Copies a segment and returns its final metadata: under a new id, or as the copy that was `begun` before.

    A copy that fails is cleaned up.
    """
    started = begun or segment.new_metadata(broker_id=broker_id, event_timestamp_ms=clock())
    try:
        if begun is None:
            tiergate.metadata.add_segment(started)
    except KeyboardInterrupt:  # it may be announced all the same
        _clean_up(tiergate, started, clock=clock, warn=warn)
        raise
    try:
        custom_metadata = tiergate.storage.copy_segment(started, _observed(segment.data, observe))
    except (TiergateError, OSError, KeyboardInterrupt):
        _clean_up(tiergate, started, clock=clock, warn=warn)
        raise
    finish = started.step(SegmentState.COPY_FINISHED, event_timestamp_ms=clock(), custom_metadata=custom_metadata)
    tiergate.metadata.update_segment(finish)
    return started.updated_by(finish)


def delete_segment(tiergate: Tier, metadata: RemoteLogSegmentMetadata, *, clock: Clock) -> None:
    """Deletes a segment in any state, also one whose deletion was begun before."""
    tiergate.metadata.update_segment(metadata.step(SegmentState.DELETE_STARTED, event_timestamp_ms=clock()))
    tiergate.storage.delete_segment(metadata)
    tiergate.metadata.update_segment(metadata.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=clock()))


def _clean_up(
    tiergate: Tier, started: RemoteLogSegmentMetadata, *, clock: Clock, warn: Callable[[LeftOverSegment], None]
) -> None:
    try:
        delete_segment(tiergate, started, clock=clock)
    except SegmentNotFound:
        pass  # it was not even announced
    except TiergateError as error:
        warn(LeftOverSegment(started.segment_id, error.message))


@dataclass(frozen=True, slots=True)
class _ObservedSegmentData(LogSegmentData):
    observe: Observer = lambda _: None

    def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
        sent = sum(begin_at.values())
        for chunk in LogSegmentData.chunks(self, begin_at=begin_at):
            yield chunk
            sent += len(chunk.data)
            self.observe(sent)


def _observed(data: LogSegmentData, observe: Observer) -> LogSegmentData:
    return _ObservedSegmentData(
        log=data.log,
        offset_index=data.offset_index,
        time_index=data.time_index,
        leader_epoch=data.leader_epoch,
        producer_snapshot=data.producer_snapshot,
        txn_index=data.txn_index,
        observe=observe,
    )
