"""The executors' side of a verification: checks segments one by one, and makes rows of what is found.

What is checked is in `checks/`; the rows are added up by Spark.
"""

from __future__ import annotations

from typing import Any, Final

from tiergate.v1 import types_pb2
from tiergate_client.conversions import metadata_from_proto
from tiergate_client.errors import SegmentNotFound
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition
from tiergate_spark.options import Service
from tiergate_spark.pipelines.checks.finding import Finding
from tiergate_spark.pipelines.checks.segment_check import SegmentReport, check_segment
from tiergate_spark.pipelines.outage_patience import ridden_out
from tiergate_spark.worker_client import worker_client

_FINDING_FIELDS: Final = "file STRING, position BIGINT, offset BIGINT, kind STRING, severity STRING, message STRING"
FINDINGS_SCHEMA: Final = f"topic STRING, topic_id STRING, partition INT, segment_id STRING, {_FINDING_FIELDS}"
SEGMENTS_SCHEMA: Final = (
    "topic STRING, topic_id STRING, partition INT, segment_id STRING, start_offset BIGINT, end_offset BIGINT, "
    "log_bytes BIGINT, batches BIGINT, records BIGINT, control_records BIGINT, checked_bytes BIGINT, is_gone BOOLEAN, "
    f"findings ARRAY<STRUCT<{_FINDING_FIELDS.replace(' STRING', ': STRING').replace(' BIGINT', ': BIGINT')}>>"
)


def segment_row(encoded: bytes, service: Service) -> tuple[Any, ...]:
    """What is found in a segment, given in its wire form; a tier that is away is waited for."""
    segment = metadata_from_proto(types_pb2.RemoteLogSegmentMetadata.FromString(encoded), "segment")
    report = ridden_out(lambda: _report(segment, service), subject=f"segment {segment.segment_id}")
    return (
        *partition_names(segment.partition),
        str(segment.segment_id),
        segment.start_offset,
        segment.end_offset,
        segment.segment_size_bytes,
        report.batch_count,
        report.record_count,
        report.control_record_count,
        report.checked_bytes,
        report.is_gone,
        [finding_row(one) for one in report.findings],
    )


def _report(segment: RemoteLogSegmentMetadata, service: Service) -> SegmentReport:
    client = worker_client(service)

    def is_finished(one: RemoteLogSegmentMetadata) -> bool:
        try:
            now = client.metadata.get_segment(one.segment_id, partition=one.partition)
        except SegmentNotFound:
            return False
        return now.state is SegmentState.COPY_FINISHED

    return check_segment(segment, client.storage, is_finished=is_finished)


def partition_names(partition: TopicIdPartition) -> tuple[str, str, int]:
    return partition.topic, str(partition.topic_id), partition.partition


def finding_row(one: Finding) -> tuple[Any, ...]:
    return one.file, one.position, one.offset, one.kind.value, one.severity.value, one.message
