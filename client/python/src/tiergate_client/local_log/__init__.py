"""Kafka partition directories on this machine: which segments are rolled, and what a copy of one needs.

from tiergate_client.local_log import PartitionDirectory

for segment in PartitionDirectory.open(Path("data/orders-0")).rolled_segments():
    print(segment.base_offset, segment.size_bytes)
"""

from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.local_log.partition_directory import (
    NoPartitionDirectory,
    PartitionDirectory,
    UnreadablePartitionDirectory,
)

__all__ = ["LocalSegment", "NoPartitionDirectory", "PartitionDirectory", "UnreadablePartitionDirectory"]
