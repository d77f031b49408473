"""RecordService on the segment plane: messages in, plans and reads, messages out.

It asks the metadata plane on behalf of its callers, each with the token that it sent (`record_metadata.py`). What is
done with segments is imported with the first call: see `record_reading.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import grpc

from tiergate.v1 import records_pb2 as pb
from tiergate_client.conversions import inside, partition_to_proto, token_to_proto
from tiergate_client.errors import InvalidField, LimitExceeded
from tiergate_client.values import ConsistencyToken, TopicIdPartition
from tiergate_server.metrics import SegmentsMetrics
from tiergate_server.rpc.calls import ConcurrencyLimit
from tiergate_server.rpc.record_metadata import CallersMetadata
from tiergate_server.rpc.record_requests import (
    ReadForm,
    bounds_of,
    form_of,
    isolation_of,
    log_start_of,
    require_only_what_goes_with_a_split,
    split_bytes_of,
    split_records_of,
    timestamp_of,
)
from tiergate_server.rpc.record_topics import named_partition
from tiergate_server.rpc.throttle import Throttle
from tiergate_server.segments.volume_reads import VolumeReads
from tiergate_server.segments.volumes import SegmentVolumes

if TYPE_CHECKING:
    from tiergate_client.records.read_plan import PartitionPlan

_logger = logging.getLogger(__name__)

# What gRPC takes in every language unless it is told otherwise.
_RECEIVED_BYTES: Final = 4 * 1024 * 1024
_PLAN_MESSAGE_BYTES: Final = 1024 * 1024


class RecordService:
    def __init__(
        self,
        volumes: SegmentVolumes,
        *,
        metadata: CallersMetadata,
        reads: ConcurrencyLimit,
        plan_splits: int,
        throttle: Throttle,
        chunk_bytes: int,
        message_bytes: int,
        metrics: SegmentsMetrics,
    ) -> None:
        self._volumes = volumes
        self._metadata = metadata
        self._reads = reads
        self._plan_splits = plan_splits
        self._throttle = throttle
        self._chunk_bytes = chunk_bytes
        self._message_bytes = min(message_bytes, _RECEIVED_BYTES)
        self._metrics = metrics

    def plan_read(self, request: pb.PlanReadRequest, context: grpc.ServicerContext) -> Iterator[pb.PlanReadResponse]:
        bounds, split_bytes, split_records = bounds_of(request), split_bytes_of(request), split_records_of(request)
        with self._reads.slot(), self._metadata.asked_by(request, context) as view:
            from tiergate_server.rpc import record_reading  # noqa: PLC0415 (heavy: see that module's docstring)

            plan = record_reading.planned(
                view.metadata,
                VolumeReads(self._volumes, is_wanted=context.is_active),
                named_partition(view.metadata, request.partition),
                bounds,
                split_bytes=split_bytes,
                split_records=split_records,
                most_splits=self._plan_splits,
                min_timestamp_ms=request.min_timestamp_ms if request.HasField("min_timestamp_ms") else None,
            )
            yield pb.PlanReadResponse(
                token=_token(view.token),
                partition=partition_to_proto(plan.partition),
                start_offset=plan.start_offset,
                stop_offset=plan.stop_offset,
                missing=self._told_missing(plan),
            )
            yield from self._split_messages(plan)

    def _split_messages(self, plan: PartitionPlan) -> Iterator[pb.PlanReadResponse]:
        from tiergate_client.record_conversions import split_to_proto  # noqa: PLC0415 (likewise)

        message, used_bytes = pb.PlanReadResponse(), 0
        for split in plan.splits:
            converted = split_to_proto(split)
            size_bytes = converted.ByteSize()
            if size_bytes > self._message_bytes - 64:
                raise LimitExceeded.of(
                    "message_bytes",
                    self._message_bytes,
                    f"the split from offset {split.start_offset} on does not fit into a message, with "
                    f"{len(split.aborted)} aborted transactions: ask for smaller splits",
                )
            if used_bytes and used_bytes + size_bytes > _PLAN_MESSAGE_BYTES:
                yield message
                message, used_bytes = pb.PlanReadResponse(), 0
            message.splits.append(converted)
            used_bytes += size_bytes
        if used_bytes:
            yield message

    def read_records(self, request: pb.ReadRecordsRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
        source, form = request.WhichOneof("source"), form_of(request)
        if source is None:
            raise InvalidField.of("partition", "name a partition or give a split")
        with self._reads.slot():
            plan, token = self._planned(request, context) if source == "partition" else (_of_split(request), None)
            first = pb.ReadRecordsResponse(
                next_offset=plan.start_offset,
                token=_token(token),
                partition=partition_to_proto(plan.partition),
                stop_offset=plan.stop_offset,
                missing=self._told_missing(plan),
                aborted=_aborted(plan) if form.is_raw else (),
            ).SerializeToString()
            if len(first) > self._message_bytes:
                raise LimitExceeded.of(
                    "message_bytes",
                    self._message_bytes,
                    f"the aborted transactions of offsets {plan.start_offset} to {plan.stop_offset} do not fit into a "
                    f"message: read fewer offsets at once",
                )
            yield first
            yield from self._messages(plan, form, context)

    def _planned(
        self, request: pb.ReadRecordsRequest, context: grpc.ServicerContext
    ) -> tuple[PartitionPlan, ConsistencyToken | None]:
        from tiergate_server.rpc import record_reading  # noqa: PLC0415 (heavy: see that module's docstring)

        bounds = bounds_of(request)
        with self._metadata.asked_by(request, context) as view:
            plan = record_reading.planned(
                view.metadata,
                VolumeReads(self._volumes, is_wanted=context.is_active),
                named_partition(view.metadata, request.partition),
                bounds,
                split_bytes=record_reading.UNCUT_BYTES,
            )
            return plan, view.token

    def _messages(self, plan: PartitionPlan, form: ReadForm, context: grpc.ServicerContext) -> Iterator[bytes]:
        from tiergate_server.rpc import record_messages, record_reading  # noqa: PLC0415 (likewise)

        storage = VolumeReads(self._volumes, is_wanted=context.is_active)
        allowance = record_messages.Allowance(form.max_records, form.max_bytes)
        if form.is_raw:
            messages = record_messages.raw_messages(
                record_reading.raw_runs(plan.splits, storage),
                chunk_bytes=self._chunk_bytes,
                start_offset=plan.start_offset,
                stop_offset=plan.stop_offset,
                allowance=allowance,
            )
        else:
            messages = record_messages.record_messages(
                record_reading.record_batches(plan.splits, storage, columns=form.columns),
                message_bytes=self._message_bytes,
                allowance=allowance,
            )
        for message in messages:
            self._throttle.fetching(plan.partition.topic, len(message), context)
            yield message
            self._metrics.sent_bytes.inc(len(message))
        if not allowance.is_used_up:
            yield record_messages.last_message(plan.stop_offset)

    def _told_missing(self, plan: PartitionPlan) -> list[pb.OffsetRange]:
        """Told to the operator as well: the caller wants no error of it, and may not look."""
        if plan.holes:
            skipped = ", ".join(f"{start} to {stop - 1}" for start, stop in plan.holes)
            _logger.warning("a read of %s passes over the missing offsets %s", plan.partition, skipped)
            self._metrics.skipped_offsets.inc(sum(stop - start for start, stop in plan.holes))
        return [pb.OffsetRange(start_offset=start, stop_offset=stop) for start, stop in plan.holes]

    def find_offset_by_time(
        self, request: pb.FindOffsetByTimeRequest, context: grpc.ServicerContext
    ) -> pb.FindOffsetByTimeResponse:
        timestamp_ms, isolation, log_start = timestamp_of(request), isolation_of(request), log_start_of(request)
        with self._reads.slot(), self._metadata.asked_by(request, context) as view:
            from tiergate_server.rpc import record_reading  # noqa: PLC0415 (heavy: see that module's docstring)

            partition: TopicIdPartition = named_partition(view.metadata, request.partition)
            found = record_reading.found_offset(
                view.metadata,
                VolumeReads(self._volumes, is_wanted=context.is_active),
                partition,
                timestamp_ms,
                isolation=isolation,
                log_start_offset=log_start,
                skips_missing=request.skip_missing,
            )
            answer = pb.FindOffsetByTimeResponse(token=_token(view.token), partition=partition_to_proto(partition))
        if found is not None:
            answer.offset = found.offset
            answer.timestamp_ms = found.timestamp_ms
            if found.leader_epoch >= 0:  # batches of producers that knew none have -1
                answer.leader_epoch = found.leader_epoch
        return answer


def record_handlers(service: RecordService) -> grpc.GenericRpcHandler:
    """The service for a server. Not the generated registration: messages with records stay raw."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "PlanRead": grpc.unary_stream_rpc_method_handler(
            service.plan_read,
            request_deserializer=pb.PlanReadRequest.FromString,
            response_serializer=pb.PlanReadResponse.SerializeToString,
        ),
        "ReadRecords": grpc.unary_stream_rpc_method_handler(
            service.read_records, request_deserializer=pb.ReadRecordsRequest.FromString
        ),
        "FindOffsetByTime": grpc.unary_unary_rpc_method_handler(
            service.find_offset_by_time,
            request_deserializer=pb.FindOffsetByTimeRequest.FromString,
            response_serializer=pb.FindOffsetByTimeResponse.SerializeToString,
        ),
    }
    return grpc.method_handlers_generic_handler("tiergate.v1.RecordService", methods)


def _of_split(request: pb.ReadRecordsRequest) -> PartitionPlan:
    from tiergate_client.record_conversions import split_from_proto  # noqa: PLC0415 (heavy)
    from tiergate_client.records.read_plan import PartitionPlan  # noqa: PLC0415 (heavy)
    from tiergate_server.rpc.record_reading import resumed  # noqa: PLC0415 (heavy)

    require_only_what_goes_with_a_split(request)
    with inside("split"):
        split = split_from_proto(request.split)
    start_offset = request.start_offset if request.HasField("start_offset") else split.start_offset
    rest = resumed(split, start_offset)
    return PartitionPlan(split.partition, start_offset, split.stop_offset, (rest,) if rest.ranges else ())


def _aborted(plan: PartitionPlan) -> list[pb.AbortedTransaction]:
    """Each once: a transaction may reach over several splits."""
    from tiergate_client.record_conversions import aborted_to_proto  # noqa: PLC0415 (heavy)

    found = {(one.last_offset, one.producer_id): one for split in plan.splits for one in split.aborted}
    return [aborted_to_proto(one) for _, one in sorted(found.items())]


def _token(token: ConsistencyToken | None) -> Any:
    return None if token is None else token_to_proto(token)
