"""Records decoded in the test's own process, with no service between: what the wire must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tiergate_client import OffsetRange, Record, RecordHeader, RecordTimestampType, TopicId, TopicIdPartition
from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage
from tiergate_client.records.columns import ALL_COLUMNS
from tiergate_client.records.history import load_history
from tiergate_client.records.read_bounds import LOSS_IS_ACCEPTED_BY
from tiergate_client.records.read_plan import IsolationLevel, PartitionPlan, plan_history
from tiergate_client.records.read_split import ReadSplit
from tiergate_client.records.split_reading import read_split
from tiergate_client.records.time_lookup import find_offset_by_time

_TYPES = (RecordTimestampType.CREATE_TIME, RecordTimestampType.LOG_APPEND_TIME)


def records_of(split: ReadSplit, storage: RemoteStorage) -> Iterator[Record]:
    for batch in read_split(split, storage, columns=ALL_COLUMNS):
        for row in batch.to_pylist():
            headers = tuple(RecordHeader(header["key"], header["value"]) for header in row["headers"])
            yield Record(
                row["offset"], row["timestamp"], _TYPES[row["timestamp_type"]], row["key"], row["value"], headers
            )


class InProcessStream:
    def __init__(self, plan: PartitionPlan, storage: RemoteStorage, max_records: int | None) -> None:
        self.next_offset = plan.start_offset
        self.stop_offset = plan.stop_offset
        self.missing = tuple(OffsetRange(*hole) for hole in plan.holes)
        self._plan = plan
        self._storage = storage
        self._max_records = max_records

    def __iter__(self) -> Iterator[Record]:
        given = 0
        for split in self._plan.splits:
            for record in records_of(split, self._storage):
                if given == self._max_records:
                    return
                given += 1
                self.next_offset = record.offset + 1
                yield record
        if given != self._max_records:
            self.next_offset = self.stop_offset


class InProcessRecords:
    """The part of `Tiergate.records` that the command line uses."""

    def __init__(self, metadata: RemoteLogMetadata, storage: RemoteStorage) -> None:
        self._metadata = metadata
        self._storage = storage

    def read_records(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: TopicId | None = None,
        start_offset: int | None = None,
        start_time_ms: int | None = None,
        stop_offset: int | None = None,
        stop_time_ms: int | None = None,
        isolation: str = "read_uncommitted",
        max_records: int | None = None,
        skip_missing: bool = False,
    ) -> nullcontext[InProcessStream]:
        assert topic_id is not None
        history = load_history(self._metadata, self._storage, TopicIdPartition(topic_id, partition, topic))

        def by_time(time_ms: int) -> int:
            found = find_offset_by_time(history, self._storage, time_ms)
            return history.stop_offset if found is None else found.offset

        try:
            plan = plan_history(
                history,
                self._storage,
                start_offset=start_offset if start_time_ms is None else by_time(start_time_ms),
                stop_offset=stop_offset if stop_time_ms is None else by_time(stop_time_ms),
                isolation=IsolationLevel(isolation),
                fail_on_data_loss=not skip_missing,
            )
        except OffsetOutOfRange as error:  # in the words of the wire, which the service puts it in
            message = error.message.replace(LOSS_IS_ACCEPTED_BY, "skip_missing")
            raise OffsetOutOfRange(message, details=error.details) from error
        return nullcontext(InProcessStream(plan, self._storage, max_records))
