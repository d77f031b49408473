"""What a read of records gives: records as plain values, or batches as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from tiergate.v1 import records_pb2 as pb
from tiergate_client._record_reads import RecordRead
from tiergate_client.record_values import AbortedRange, OffsetRange, Record, RecordHeader, RecordTimestampType
from tiergate_client.values import TopicIdPartition

_TIMESTAMP_TYPES: Final[dict[int, RecordTimestampType]] = {
    pb.TIMESTAMP_TYPE_CREATE_TIME: RecordTimestampType.CREATE_TIME,
    pb.TIMESTAMP_TYPE_LOG_APPEND_TIME: RecordTimestampType.LOG_APPEND_TIME,
}


class _Stream:
    """Close it, or use it as a context, when you stop before its end."""

    def __init__(self, read: RecordRead) -> None:
        self._read = read
        # Not the read's own: that is ahead by what came in the same message and was not given yet.
        self._next_offset = read.next_offset

    @property
    def partition(self) -> TopicIdPartition:
        """With name and id."""
        return self._read.partition

    @property
    def next_offset(self) -> int:
        """Where another read goes on: everything below has been given."""
        return self._next_offset

    @property
    def stop_offset(self) -> int:
        """Where this read ends when no limit ends it."""
        return self._read.stop_offset

    @property
    def missing(self) -> tuple[OffsetRange, ...]:
        """What is passed over."""
        return self._read.missing

    def close(self) -> None:
        self._read.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RecordStream(_Stream):
    """Records in the order of the log. A second loop goes on where the first one was left."""

    def __init__(self, read: RecordRead) -> None:
        super().__init__(read)
        self._records = self._each()

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def _each(self) -> Iterator[Record]:
        while (message := self._read.next_message()) is not None:
            records = [_record(one) for one in message.records]
            self._read.passed(
                message.next_offset,
                records=len(records),
                size_bytes=sum(record.size_bytes for record in records),
            )
            for record in records:
                self._next_offset = record.offset + 1
                yield record
            self._next_offset = message.next_offset


class RawBatchStream(_Stream):
    """Runs of whole record batches, also control batches and those of `aborted` transactions."""

    @property
    def aborted(self) -> tuple[AbortedRange, ...]:
        return tuple(AbortedRange(it.producer_id, it.first_offset, it.last_offset) for it in self._read.aborted)

    def __iter__(self) -> Iterator[bytes]:
        pieces: list[bytes] = []
        attempts = self._read.attempts
        while (message := self._read.next_message()) is not None:
            if self._read.attempts != attempts:
                attempts = self._read.attempts
                pieces = []
            pieces.append(message.data)
            if message.is_continued:
                continue
            batches = b"".join(pieces)
            pieces = []
            passed = message.next_offset - self._read.next_offset
            self._read.passed(message.next_offset, records=passed, size_bytes=len(batches))
            self._next_offset = message.next_offset
            if batches:
                yield batches


def _record(message: pb.Record) -> Record:
    return Record(
        message.offset,
        message.timestamp_ms,
        _TIMESTAMP_TYPES[message.timestamp_type],
        message.key if message.HasField("key") else None,
        message.value if message.HasField("value") else None,
        tuple([RecordHeader(it.key, it.value if it.HasField("value") else None) for it in message.headers]),
    )
