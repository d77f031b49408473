"""Thin client of Tiergate, Kafka's remote tier as a network service.

from tiergate_client import connect

with connect("127.0.0.1:7400") as tiergate:
    for summary in tiergate.metadata.list_partitions():
        print(summary.partition)
"""

from tiergate_client._admin import Admin, Assignment, HostedPartition, TakenSnapshot
from tiergate_client._connection import Access, MetadataView, ServerInfo, Tiergate, connect
from tiergate_client._record_stream import RawBatchStream, RecordStream
from tiergate_client._records import GrpcRecords
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import TiergateError
from tiergate_client.ids import LogId, SegmentId, TopicId
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage, SegmentStream
from tiergate_client.record_values import (
    AbortedRange,
    FoundOffset,
    OffsetRange,
    PlannedRead,
    PlannedSplit,
    Record,
    RecordHeader,
    RecordTimestampType,
)
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import FileChecksum, IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadProgress, UploadSummary
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionDeleteState,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    SegmentState,
    TopicIdPartition,
)
from tiergate_client.verification import Damage, VerificationProgress

__all__ = [
    "AbortedRange",
    "Access",
    "Admin",
    "Assignment",
    "ConsistencyToken",
    "Damage",
    "FileChecksum",
    "FoundOffset",
    "GrpcRecords",
    "HostedPartition",
    "IndexQuestion",
    "LeaderEpochs",
    "LogId",
    "LogSegmentData",
    "MetadataChange",
    "MetadataView",
    "OffsetRange",
    "PartitionDeleteState",
    "PartitionSummary",
    "PlannedRead",
    "PlannedSplit",
    "RawBatchStream",
    "Record",
    "RecordHeader",
    "RecordStream",
    "RecordTimestampType",
    "RemoteLogMetadata",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentMetadataUpdate",
    "RemotePartitionDeleteMetadata",
    "RemoteStorage",
    "ResolvedSegment",
    "SegmentFile",
    "SegmentId",
    "SegmentManifest",
    "SegmentQuestion",
    "SegmentState",
    "SegmentStream",
    "ServerInfo",
    "TakenSnapshot",
    "Tiergate",
    "TiergateError",
    "TopicId",
    "TopicIdPartition",
    "UploadProgress",
    "UploadSummary",
    "VerificationProgress",
    "connect",
]
