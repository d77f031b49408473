"""Two replicas on one store, copying, deleting and reading at random: none shows for longer than 5 s what is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from support.forgetful_disk import ForgetfulDisk
from support.segments import make_data, make_metadata
from tiergate_client.errors import SegmentNotFound
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.segment_cache import MANIFEST_VALID_S, SegmentCache
from tiergate_server.segments.segment_storage import SegmentStorage

DATA = make_data(log_bytes=50, index_bytes=40)

replicas = st.integers(0, 1)


Read = Callable[[SegmentStorage, RemoteLogSegmentMetadata], bool]


def read_log(storage: SegmentStorage, metadata: RemoteLogSegmentMetadata) -> bool:
    with storage.fetch_segment(metadata) as stream:
        return stream.read() == DATA.log


def read_index(storage: SegmentStorage, metadata: RemoteLogSegmentMetadata) -> bool:
    return storage.fetch_index(metadata, SegmentFile.TIME_INDEX) == DATA.time_index


def read_manifest(storage: SegmentStorage, metadata: RemoteLogSegmentMetadata) -> bool:
    return storage.get_manifest(metadata) == DATA.manifest(metadata)


READS: tuple[Read, ...] = (read_index, read_manifest, read_log)


@dataclass(slots=True)
class Segment:
    """What the model knows of one: when, and by which replicas, it was deleted."""

    metadata: RemoteLogSegmentMetadata
    deleted_at_s: float | None = None
    deleted_by: set[int] = field(default_factory=set)


class CachesOfTwoReplicas(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
        # Room for few: what is pushed out is as much a part of it as what is kept.
        self.replicas = [
            SegmentStorage(store, cache=SegmentCache(8000, monotonic_s=lambda: self.now_s)) for _ in range(2)
        ]
        self.segments: list[Segment] = []

    @rule(replica=replicas)
    def copy(self, replica: int) -> None:
        segment = Segment(make_metadata())
        self.replicas[replica].copy_segment(segment.metadata, DATA)
        self.segments.append(segment)

    @precondition(lambda self: self.segments)
    @rule(replica=replicas, which=st.integers(0, 2))
    def delete(self, replica: int, which: int) -> None:
        """One of the newest."""
        segment = self.segments[-1 - which % len(self.segments)]
        self.replicas[replica].delete_segment(segment.metadata)
        segment.deleted_by.add(replica)
        if segment.deleted_at_s is None:
            segment.deleted_at_s = self.now_s

    @rule(seconds=st.sampled_from([2.0, MANIFEST_VALID_S]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(replica=replicas, read=st.sampled_from(READS))
    def read(self, replica: int, read: Read) -> None:
        for segment in self.segments:
            self._read(replica, segment, read)

    def _read(self, replica: int, segment: Segment, read: Read) -> None:
        try:
            is_right = read(self.replicas[replica], segment.metadata)
        except SegmentNotFound:
            assert segment.deleted_at_s is not None
            return
        assert is_right
        if segment.deleted_at_s is not None:
            assert replica not in segment.deleted_by, "what a replica deleted is gone for it at once"
            assert self.now_s - segment.deleted_at_s < MANIFEST_VALID_S


TestCachesOfTwoReplicas = CachesOfTwoReplicas.TestCase
TestCachesOfTwoReplicas.settings = settings(deadline=None, stateful_step_count=20)
