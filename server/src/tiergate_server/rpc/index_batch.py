"""BatchFetchIndexes: several indexes in one answer that every client can receive, each with a status of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc

from tiergate.v1 import storage_pb2 as pb
from tiergate_client import framing
from tiergate_client.conversions import file_from_proto, inside, metadata_from_proto
from tiergate_client.errors import BackendThrottled, InvalidField, LimitExceeded, TiergateError, Unavailable
from tiergate_client.status import to_status
from tiergate_server.metrics import SegmentsMetrics
from tiergate_server.rpc.calls import as_outside_error
from tiergate_server.rpc.deadlines import work_seconds
from tiergate_server.rpc.throttle import Throttle
from tiergate_server.segments.volumes import SegmentVolumes

# What gRPC takes in every language unless it is told otherwise.
_RECEIVED_BYTES = 4 * 1024 * 1024
# An item without data is smaller (to_status keeps below 8 kB), and one with data carries less than this beside it.
_ITEM_BYTES = 8 * 1024


class IndexBatch:
    """One call, of so few items that their statuses alone fit into a message."""

    def __init__(
        self,
        volumes: SegmentVolumes,
        context: grpc.ServicerContext,
        *,
        throttle: Throttle,
        metrics: SegmentsMetrics,
        message_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._context = context
        self._throttle = throttle
        self._metrics = metrics
        self._message_bytes = min(message_bytes, _RECEIVED_BYTES)
        # A store that is away takes its time to say so: not for every item, or the call would be late for all of them.
        self._patient_until_s = time.monotonic() + work_seconds(context.time_remaining()) / 2
        self._store_failure: TiergateError | None = None

    def answer(self, request: pb.BatchFetchIndexesRequest) -> bytes:
        """The framed response."""
        return b"".join(self._items(request))

    def _items(self, request: pb.BatchFetchIndexesRequest) -> Iterator[bytes]:
        used_bytes = 0
        for number, question in enumerate(request.items):
            if not self._context.is_active():
                return
            items_left = len(request.items) - number
            item = self._item(number, question, self._message_bytes - used_bytes - items_left * _ITEM_BYTES)
            used_bytes += len(item)
            yield item

    def _item(self, number: int, question: pb.IndexQuestion, room_bytes: int) -> bytes:
        try:
            return self._data(number, question, room_bytes)
        except (Unavailable, BackendThrottled) as failure:
            self._store_failure = failure
            return _refusal(failure)
        except TiergateError as error:
            return _refusal(error)

    def _data(self, number: int, question: pb.IndexQuestion, room_bytes: int) -> bytes:
        if self._store_failure is not None and time.monotonic() > self._patient_until_s:
            raise self._store_failure
        with inside(f"items[{number}]"):
            metadata, file = metadata_from_proto(question.metadata, "metadata"), file_from_proto(question.file)
            piece = self._volumes.holding(metadata).fetch_index_within(metadata, file, max_bytes=room_bytes)
        if piece is None:
            raise LimitExceeded.of(
                "message_bytes",
                self._message_bytes,
                f"the {file.value} of segment {metadata.segment_id} no longer fits into an answer of "
                f"{self._message_bytes} bytes: fetch it alone",
            )
        self._throttle.fetching(metadata.partition.topic, len(piece.data), self._context)
        self._metrics.sent_bytes.inc(len(piece.data))
        return framing.frame_index_answer(crc32c=piece.whole.crc32c, data=piece.data)


def require_batch(request: pb.BatchFetchIndexesRequest, *, batch_indexes: int) -> None:
    """Raises InvalidField for no items, LimitExceeded for too many."""
    count = len(request.items)
    if not count:
        raise InvalidField.of("items", "no index is asked for")
    if count > batch_indexes:
        raise LimitExceeded.of(
            "batch_indexes", batch_indexes, f"{count} indexes at once are above the limit of {batch_indexes}"
        )


def _refusal(error: TiergateError) -> bytes:
    answer = pb.IndexAnswer(status=to_status(as_outside_error(error, "BatchFetchIndexes")))
    return framing.frame_index_refusal(answer.SerializeToString())
