"""The bytes of a segment on the sender's side: where its files are, their checksums, and the chunks of an upload."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from crc32c import crc32c

from tiergate_client.checksums import crc32c_appended
from tiergate_client.segment_files import BLOCK_BYTES, FileChecksum, SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata

Source = Path | bytes
"""A file by its path, or its content."""


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """A run of bytes of one file of an upload, at most a block of it."""

    file: SegmentFile
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The files of a segment to be copied. Read at least twice (checksums, then bytes), again for every retry."""

    log: Source
    offset_index: Source
    time_index: Source
    leader_epoch: bytes
    producer_snapshot: Source | None = None
    txn_index: Source | None = None

    @property
    def sources(self) -> Mapping[SegmentFile, Source]:
        optional = {
            SegmentFile.PRODUCER_SNAPSHOT: self.producer_snapshot,
            SegmentFile.TXN_INDEX: self.txn_index,
        }
        return {
            SegmentFile.OFFSET_INDEX: self.offset_index,
            SegmentFile.TIME_INDEX: self.time_index,
            SegmentFile.LEADER_EPOCH: self.leader_epoch,
            **{file: source for file, source in optional.items() if source is not None},
            SegmentFile.LOG: self.log,
        }

    def manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        """Reads every file once and says what the upload will hold."""
        files = {}
        log_blocks: list[int] = []
        for file, source in self.sources.items():
            size = checksum = 0
            for block in _blocks(source):
                block_checksum = crc32c(block)
                if file is SegmentFile.LOG:
                    log_blocks.append(block_checksum)
                checksum = crc32c_appended(checksum, block, block_checksum)
                size += len(block)
            files[file] = FileChecksum(size, checksum)
        return SegmentManifest(metadata, files, tuple(log_blocks))

    def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
        """Every file from its beginning or as told, in the order in which it is sent: the log comes last."""
        for file, source in self.sources.items():
            offset = begin_at.get(file, 0)
            for block in _blocks(source, offset):
                yield SegmentChunk(file, offset, block)
                offset += len(block)


def _blocks(source: Source, offset: int = 0) -> Iterator[bytes]:
    with _opened(source) as stream:
        stream.seek(offset)
        while block := stream.read(BLOCK_BYTES):
            yield block


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, Path):
        with source.open("rb") as stream:
            yield stream
    else:
        yield io.BytesIO(source)
