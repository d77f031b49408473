"""Segments made up for tests: metadata, files of any size, and what is read back of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from hypothesis import strategies as st

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import IndexNotFound
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition

ALL_INDEXES = tuple(file for file in SegmentFile if file is not SegmentFile.LOG)


def make_metadata(
    *,
    topic: str = "orders",
    topic_id: TopicId | None = None,
    partition: int = 0,
    segment_id: SegmentId | None = None,
    start_offset: int = 100,
    end_offset: int = 199,
    epochs: dict[int, int] | None = None,
    segment_size_bytes: int = 1000,
    broker_id: int = 1,
    event_timestamp_ms: int = 1_700_000_000_000,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadata:
    """Metadata in COPY_STARTED, of a new segment of a new topic unless ids are given."""
    return RemoteLogSegmentMetadata(
        partition=TopicIdPartition(topic_id or TopicId.random(), partition, topic),
        segment_id=segment_id or SegmentId.random(),
        start_offset=start_offset,
        end_offset=end_offset,
        segment_leader_epochs=LeaderEpochs.of(epochs or {0: start_offset, 2: start_offset + 50}),
        segment_size_bytes=segment_size_bytes,
        max_timestamp_ms=1_600_000_000_000,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        custom_metadata=custom_metadata,
    )


def make_data(
    *,
    log_bytes: int = BLOCK_BYTES + 5,
    index_bytes: int = 120,
    seed: int = 0,
    with_producer_snapshot: bool = True,
    with_txn_index: bool = False,
) -> LogSegmentData:
    """Random files, the same ones for the same arguments."""
    source = random.Random(seed)
    return LogSegmentData(
        log=source.randbytes(log_bytes),
        offset_index=source.randbytes(index_bytes),
        time_index=source.randbytes(index_bytes),
        leader_epoch=b"0\n1\n0 0\n",
        producer_snapshot=source.randbytes(index_bytes) if with_producer_snapshot else None,
        txn_index=source.randbytes(index_bytes) if with_txn_index else None,
    )


def log_sizes() -> st.SearchStrategy[int]:
    """Sizes of a log, mostly around the borders of blocks."""
    around_a_border = st.builds(
        lambda blocks, distance: max(0, blocks * BLOCK_BYTES + distance), st.integers(0, 3), st.integers(-2, 2)
    )
    return st.one_of(around_a_border, st.integers(0, 3 * BLOCK_BYTES))


def segment_data() -> st.SearchStrategy[LogSegmentData]:
    """Files of a segment: random sizes, with and without the optional ones."""
    return st.builds(
        make_data,
        log_bytes=log_sizes(),
        index_bytes=st.integers(0, 5000),
        seed=st.integers(0, 2**32),
        with_producer_snapshot=st.booleans(),
        with_txn_index=st.booleans(),
    )


def read_back(storage: RemoteStorage, metadata: RemoteLogSegmentMetadata) -> LogSegmentData:
    """Everything that is stored of a segment, comparable with what `make_data` made."""
    indexes: dict[SegmentFile, bytes | None] = {}
    for file in ALL_INDEXES:
        try:
            indexes[file] = storage.fetch_index(metadata, file)
        except IndexNotFound:
            indexes[file] = None
    with storage.fetch_segment(metadata) as stream:
        log = stream.read()
    required = {file: data for file, data in indexes.items() if data is not None}
    return LogSegmentData(
        log=log,
        offset_index=required[SegmentFile.OFFSET_INDEX],
        time_index=required[SegmentFile.TIME_INDEX],
        leader_epoch=required[SegmentFile.LEADER_EPOCH],
        producer_snapshot=indexes[SegmentFile.PRODUCER_SNAPSHOT],
        txn_index=indexes[SegmentFile.TXN_INDEX],
    )


@dataclass(frozen=True, slots=True)
class BreakingData(LogSegmentData):
    """Its log cannot be read further than this, which it says when `wait` has returned."""

    readable_log_bytes: int = 0
    wait: Callable[[], None] = lambda: None

    def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
        for chunk in LogSegmentData.chunks(self, begin_at=begin_at):
            if chunk.file is SegmentFile.LOG and chunk.offset >= self.readable_log_bytes:
                self.wait()
                raise OSError("the disk broke here")
            yield chunk


def breaking(data: LogSegmentData, readable_log_bytes: int, *, wait: Callable[[], None]) -> BreakingData:
    files = {field.name: getattr(data, field.name) for field in fields(LogSegmentData)}
    return BreakingData(**files, readable_log_bytes=readable_log_bytes, wait=wait)
