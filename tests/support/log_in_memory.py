"""A segment plane that holds logs in memory and gives them in pieces of any size; nothing else is offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from support.segments import make_metadata
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.transaction_index import AbortedTransaction
from tiergate_client.values import RemoteLogSegmentMetadata


class LogsInMemory:
    """By segment. `held_streams` are those that nobody closed."""

    def __init__(self, logs: Mapping[RemoteLogSegmentMetadata, bytes], *, piece_bytes: int = 1000) -> None:
        self._logs = {metadata.segment_id: log for metadata, log in logs.items()}
        self._piece_bytes = piece_bytes
        self.held_streams = 0
        self.given_bytes = 0

    @property
    def storage(self) -> RemoteStorage:
        return cast("RemoteStorage", self)

    def fetch_segment(self, metadata: RemoteLogSegmentMetadata, *, offset: int, length: int) -> SegmentStream:
        self.held_streams += 1
        return SegmentStream(self._pieces(self._logs[metadata.segment_id][offset : offset + length]), self._let_go)

    def _pieces(self, content: bytes) -> Iterator[memoryview]:
        # As a client does it that receives into a buffer of its own: who keeps a piece sees it overwritten.
        buffer = bytearray(self._piece_bytes)
        for at in range(0, len(content), self._piece_bytes):
            piece = content[at : at + self._piece_bytes]
            buffer[: len(piece)] = piece
            self.given_bytes += len(piece)
            yield memoryview(buffer)[: len(piece)]

    def _let_go(self) -> None:
        self.held_streams -= 1


def log_metadata(log: bytes, *, start_offset: int, end_offset: int) -> RemoteLogSegmentMetadata:
    return make_metadata(
        start_offset=start_offset, end_offset=end_offset, epochs={7: start_offset}, segment_size_bytes=len(log)
    )


def whole_split(metadata: RemoteLogSegmentMetadata, *aborted: AbortedTransaction) -> ReadSplit:
    """Everything of one segment."""
    size = metadata.segment_size_bytes
    wanted = SegmentRange(metadata, metadata.start_offset, metadata.end_offset + 1, 0, size)
    return ReadSplit(metadata.partition, (wanted,), aborted)
