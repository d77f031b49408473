"""What the command line connects to, without a wire: the real domain on a log in memory and a temporary directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.in_process_records import InProcessRecords
from support.local_metadata import LocalMetadata
from tiergate_client import Assignment, HostedPartition, LogId, TakenSnapshot, TopicId
from tiergate_client.errors import TiergateError, Unavailable
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.values import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.cli.connection import Plane
from tiergate_server.segments.segment_storage import SegmentStorage


@dataclass(frozen=True, slots=True)
class InProcessServerInfo:
    version: str = "9.9.9"
    plane: Plane = "metadata"
    backend: str = "in process"
    ready: bool = True
    limits: Mapping[str, int] = field(default_factory=lambda: {"chunk_bytes": 2097152})
    metadata_address: str = "metadata.test:7400"
    segments_address: str = "segments.test:7401"
    features: tuple[str, ...] = ()
    log_id: LogId | None = None
    warnings: tuple[str, ...] = ()


class WatchedMetadata(LocalMetadata):
    """Keeps the updates that it was asked for, and can refuse them."""

    def __init__(self, log: MemoryEventLog) -> None:
        super().__init__(log)
        self.updates: list[RemoteLogSegmentMetadataUpdate] = []
        self.refuse_updates_with: TiergateError | None = None

    def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        self.updates.append(update)
        if self.refuse_updates_with is not None:
            raise self.refuse_updates_with
        super().update_segment(update)


class WatchedStorage(SegmentStorage):
    """Keeps the copies that it was asked for, and can break each in the middle of its bytes."""

    copies: list[RemoteLogSegmentMetadata]
    break_copies_with: BaseException | None = None

    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        self.copies.append(metadata)
        if self.break_copies_with is not None:
            next(iter(data.chunks()))
            raise self.break_copies_with
        return super().copy_segment(metadata, data)


@dataclass(slots=True)
class ScriptedAdmin:
    """Answers what a test says, and keeps what it was asked for."""

    assignment: Assignment
    wanted: list[tuple[Sequence[int], Sequence[tuple[TopicId, int]]]] = field(default_factory=list)
    snapshot: TakenSnapshot | TiergateError = field(default_factory=lambda: TakenSnapshot("snapshots/new", 2048))

    def get_assignment(self) -> Assignment:
        return self.assignment

    def set_assignment(
        self, *, metadata_partitions: Sequence[int] = (), user_partitions: Sequence[tuple[TopicId, int]] = ()
    ) -> tuple[int, ...]:
        self.wanted.append((metadata_partitions, user_partitions))
        return tuple(metadata_partitions)

    def take_snapshot(self) -> TakenSnapshot:
        if isinstance(self.snapshot, TiergateError):
            raise self.snapshot
        return self.snapshot


def hosting(*numbers: int, partition_count: int = 4, corrupt_at: Mapping[int, int] | None = None) -> Assignment:
    corrupt = corrupt_at or {}
    return Assignment(
        partition_count, tuple(HostedPartition(number, number - 1, True, corrupt.get(number)) for number in numbers)
    )


class InProcessTiergate:
    """Both planes in this process. A plane can be taken away."""

    def __init__(self, directory: Path) -> None:
        self._log = MemoryEventLog()
        self.watched_metadata = WatchedMetadata(self._log)
        self.watched_storage = WatchedStorage(FilesystemStore(directory))
        self.watched_storage.copies = []
        self.scripted_admin = ScriptedAdmin(hosting(0, 1, 2, 3))
        self.info = InProcessServerInfo(log_id=self._log.log_id)
        self.away: set[Plane] = set()
        self.swapped: set[Plane] = set()
        """Those at whose address the other one answers."""

    @property
    def metadata(self) -> RemoteLogMetadata:
        self._require("metadata")
        return self.watched_metadata

    @property
    def storage(self) -> RemoteStorage:
        self._require("segments")
        return self.watched_storage

    @property
    def records(self) -> InProcessRecords:
        self._require("segments")
        return InProcessRecords(self.watched_metadata, self.watched_storage)

    @property
    def admin(self) -> ScriptedAdmin:
        self._require("metadata")
        return self.scripted_admin

    def server_info(self, plane: Plane) -> InProcessServerInfo:
        self._require(plane)
        is_metadata = (plane == "metadata") != (plane in self.swapped)
        return replace(self.info, plane="metadata" if is_metadata else "segments")

    def health(self, plane: Plane) -> bool:
        self._require(plane)
        return True

    def close(self) -> None:
        self.watched_metadata.close()
        self._log.close()

    def _require(self, plane: Plane) -> None:
        if plane in self.away:
            raise Unavailable("failed to connect to all addresses")


@contextmanager
def in_process_tiergate(directory: Path) -> Iterator[InProcessTiergate]:
    tiergate = InProcessTiergate(directory)
    try:
        yield tiergate
    finally:
        tiergate.close()
